"""The records of an RDB file or stream, in the order in which the file has them."""

from typing import NamedTuple

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
    """A key and its value. `idle_s` and `frequency` are there if the writer had a policy that asks
    for them."""

    database: int
    name: bytes
    value: Plain
    expires_at_ms: int | None = None
    idle_s: int | None = None
    frequency: int | None = None


class Unknown(NamedTuple):
    """A value or library that Holdfast has no place for. The reader has passed over it, so the
    caller decides whether the rest is wanted without it."""

    database: int
    name: bytes  # of the key or the library
    kind: str  # ends the sentence "it is of the type …"


class End(NamedTuple):
    """The file is complete. `is_checked`: it has a checksum, which is right."""

    version: int
    is_checked: bool


Record = Aux | Library | Sizes | Entry | Unknown | End
