"""The plain values that stand for a store's in test_store_model.py: they change no store."""

import itertools

from holdfast.store.hashes import Hash
from holdfast.store.keys import Key
from holdfast.store.lists import List
from holdfast.store.sets import Set
from holdfast.store.zsets import ZSet

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
    """What a name should hold. The token tells a key from a later one of the same name."""

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
    """A SCAN in progress: whoever is there throughout has to be seen."""

    def __init__(self, index: int, entries: dict[bytes, Entry]) -> None:
        self.index = index
        self.cursor = 0
        self.throughout = {name: entry.token for name, entry in entries.items()}
        self.seen: set[bytes] = set()


def plain(key: Key) -> tuple[object, list[bytes] | None]:
    """What a key holds, as the model has it, and the order if a dict is not enough to tell."""
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
