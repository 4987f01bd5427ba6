"""A file that takes no more rows, by means that work on compiled code as well."""

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from holdfast.store.store import FileStore

WRITING = {apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE}


@contextmanager
def refusing_writes(store: FileStore, table: str) -> Iterator[None]:
    """Every write to this table fails, also one by a trigger."""

    def authorize(action: int, about: str | None, *_: str | None) -> int:
        is_refused = action in WRITING and about == table
        return apsw.SQLITE_DENY if is_refused else apsw.SQLITE_OK

    store._connection.authorizer = authorize
    try:
        yield
    finally:
        store._connection.authorizer = None
