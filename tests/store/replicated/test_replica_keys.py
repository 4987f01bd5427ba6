"""The numbers that files have for the kinds of replicated values."""

from holdfast.crdt.replicated_key import KINDS as CLASSES
from holdfast.store.replicated.replica_keys import KINDS, NUMBERS, PIECES

IN_FILES = {
    "string": 8,
    "list": 9,
    "hash": 10,
    "set": 11,
    "zset": 12,
    "stream": 13,
    "hyperloglog": 14,
    "expiry": 15,
}


def test_existing_files_keep_their_numbers_when_a_kind_is_added() -> None:
    assert NUMBERS.items() >= IN_FILES.items()
    assert PIECES == 8


def test_every_kind_has_a_number() -> None:
    assert set(KINDS) == set(CLASSES)
