"""The records of an RDB file or stream, in the order in which the file has them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.store.rdb.plain import Plain


class Aux(NamedTuple):
    """A remark about the file, such as the version of the server that wrote it."""

    name: bytes
    value: bytes


class Library(NamedTuple):
    """A library of functions, as FUNCTION LOAD takes it."""

    code: bytes


class Sizes(NamedTuple):
    """A hint: how many keys follow in a database, and how many of them expire."""

    database: int
    keys: int
    expiring: int


class Entry(NamedTuple):
    """A key and its value. `idle_s` and `frequency` are set if the writer had an eviction policy
    that uses them."""

    database: int
    name: bytes
    value: Plain
    expires_at_ms: int | None = None
    idle_s: int | None = None
    frequency: int | None = None


class Keys(NamedTuple):
    """Many keys of one type, in columns: instead of an `Entry` for each. No field of a hash
    expires. There are no streams."""

    database: int
    type: str
    names: list[bytes]
    values: list[Any]  # as the content of `Plain`
    times: list[int | None]  # at which they expire, in ms

    def entries(self) -> Iterator[Entry]:
        for name, value, expires_at_ms in zip(self.names, self.values, self.times, strict=True):
            yield Entry(self.database, name, Plain(self.type, value), expires_at_ms)


class Unknown(NamedTuple):
    """A value or library of a kind that Holdfast does not have. The reader has skipped it, and the
    caller decides whether to go on without it."""

    database: int
    name: bytes  # of the key or the library
    kind: str  # a phrase for the end of "it is of the type …"


class End(NamedTuple):
    """The end of the file. `is_checked`: the file has a checksum, and it is right."""

    version: int
    is_checked: bool


Record = Aux | Library | Sizes | Entry | Keys | Unknown | End
