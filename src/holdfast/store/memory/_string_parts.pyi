"""What _string_parts.c has for Python."""

from typing import Any

def edit(key: Any, offset: int, part: bytes, length: int, /) -> None: ...
