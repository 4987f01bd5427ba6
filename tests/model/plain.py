"""The plain values that stand for a store's in test_store_model.py: they change no store."""

import itertools

from holdfast.store.memory.key import Key
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.set import Set
from holdfast.store.values.zset import ZSet

Fields = dict[bytes, tuple[bytes, int | None]]  # value and expiry


class Members(dict[bytes, None]):
    """A set, in order."""


class Scores(dict[bytes, float]):
    """A sorted set, sorted."""


KINDS: dict[type, str] = {
    bytes: "string", list: "list", dict: "hash", Members: "set", Scores: "zset",
}  # fmt: skip

tokens = itertools.count()


class Entry:
    """The value that a name should hold. The token distinguishes a key from a later one of the same
    name."""

    def __init__(
        self,
        value: bytes | list[bytes] | Fields | Members | Scores,
        expires_at_ms: int | None = None,
    ) -> None:
        self.value = value
        self.expires_at_ms = expires_at_ms
        self.token = next(tokens)


Model = list[dict[bytes, Entry]]


class Scan:
    """A SCAN in progress: it must return every key that exists throughout."""

    def __init__(self, index: int, entries: dict[bytes, Entry]) -> None:
        self.index = index
        self.cursor = 0
        self.throughout = {name: entry.token for name, entry in entries.items()}
        self.seen: set[bytes] = set()


def plain(key: Key) -> tuple[object, list[bytes] | None]:
    """The value of a key in the model, and its order if a dict does not have it."""
    value = key.value
    if isinstance(value, Set):
        return Members.fromkeys(value), list(value)
    if isinstance(value, ZSet):
        return Scores(value.items()), [member for _, member in value.slice(0, len(value))]
    if isinstance(value, Hash):
        fields = {name: (text, value.expires_at_ms(name)) for name, text in value.items.items()}
        return fields, list(value)
    return (list(value) if isinstance(value, List) else value), None


def lose_fields(entry: Entry, now_ms: int) -> None:
    fields = entry.value
    if isinstance(fields, dict) and not isinstance(fields, Members | Scores):
        for field, (_, expires_at_ms) in list(fields.items()):
            if expires_at_ms is not None and expires_at_ms <= now_ms:
                del fields[field]
