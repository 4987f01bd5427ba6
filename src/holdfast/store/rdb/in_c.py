"""The functions of _rdb.c, where they are compiled. Each has a twin in Python."""

from typing import Any

try:
    from holdfast.store.rdb import _rdb
except ImportError:
    IN_C: Any = None
else:
    IN_C = _rdb
