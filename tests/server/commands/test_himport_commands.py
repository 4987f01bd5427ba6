"""HIMPORT as Redis 8.10 documents it."""

import sys

import pytest

from tests.commands.asking import ask, new_peer
from tests.commands.listening import Listening
from tests.harness.in_process import InProcess

ARITY = b"ERR wrong number of arguments for 'himport%b' command"
NO_FIELDSET = b"ERR no such fieldset"


def test_many_hashes_with_the_same_fields() -> None:
    peer = new_peer("HIMPORT PREPARE u name email", "HIMPORT PREPARE o id", "HSET k old 1")
    assert ask(peer, "HIMPORT SET user:1 u alice a@b") == b"OK"
    assert ask(peer, "HIMPORT SET k u bob b@b") == b"OK"
    assert ask(peer, "HGETALL user:1") == [b"name", b"alice", b"email", b"a@b"]
    assert ask(peer, "HGETALL k") == [b"name", b"bob", b"email", b"b@b"]
    assert ask(peer, "HIMPORT SET order o 7") == b"OK"
    assert ask(peer, "HIMPORT PREPARE u other") == b"OK"
    assert ask(peer, "HIMPORT SET user:3 u x") == b"OK"
    assert ask(peer, "HGETALL user:3") == [b"other", b"x"]
    assert ask(peer, "HIMPORT DISCARD u") == 1
    assert ask(peer, "HIMPORT DISCARD u") == 0
    assert ask(peer, "HIMPORT SET user:4 u x") == NO_FIELDSET
    assert ask(peer, "HIMPORT PREPARE '' ''") == b"OK"
    assert ask(peer, "HIMPORT SET empty '' x") == b"OK"
    assert ask(peer, "HIMPORT DISCARDALL") == 2
    assert ask(peer, "HIMPORT DISCARDALL") == 0


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("HIMPORT", ARITY % b""),
        ("HIMPORT PREPARE u", ARITY % b"|prepare"),
        ("HIMPORT SET k u", ARITY % b"|set"),
        ("HIMPORT DISCARD", ARITY % b"|discard"),
        ("HIMPORT DISCARD a b", ARITY % b"|discard"),
        ("HIMPORT DISCARDALL a", ARITY % b"|discardall"),
        ("HIMPORT PREPARE v a b a", b"ERR duplicate field name in fieldset"),
        ("HIMPORT SET k v 1 2 3", NO_FIELDSET),
        ("HIMPORT SET k u 1", b"ERR value count does not match fieldset field count"),
        ("HIMPORT SET k u 1 2 3", b"ERR value count does not match fieldset field count"),
        (
            "HIMPORT SET s u 1 2",
            b"WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("COMMAND GETKEYS HIMPORT SET k u 1 2", [b"k"]),
    ],
)
def test_errors(command: str, reply: object) -> None:
    peer = new_peer("HIMPORT PREPARE u a b", "SET s string")
    assert ask(peer, command) == reply
    assert ask(peer, "EXISTS k") == 0
    assert ask(peer, "GET s") == b"string"


def test_the_fields_belong_to_one_connection() -> None:
    setting = InProcess()
    one, other = setting.peer(), setting.peer()
    ask(one, "HIMPORT PREPARE u a")
    assert ask(other, "HIMPORT SET k u 1") == NO_FIELDSET
    assert ask(one, "HIMPORT SET k u 1") == b"OK"
    before = one.session.memory_bytes
    ask(one, f"HIMPORT PREPARE v {' '.join(f'field-{n}' for n in range(100))}")
    assert one.session.memory_bytes > before + 700
    ask(one, "RESET")
    assert ask(one, "HIMPORT SET k u 1") == NO_FIELDSET
    assert ask(one, "HIMPORT DISCARDALL") == 0


def test_the_memory_of_fields_is_that_of_their_objects() -> None:
    """And it is a sum that is kept: INFO must not look at millions of names."""
    peer = new_peer()
    session = peer.session
    before = session.memory_bytes
    ask(peer, f"HIMPORT PREPARE u {' '.join(f'{n:02}' for n in range(100))}")
    assert session.memory_bytes > before + 100 * sys.getsizeof(b"00")
    ask(peer, "HIMPORT PREPARE u a")
    one_field = session.memory_bytes
    assert before < one_field < before + 200
    ask(peer, "HIMPORT PREPARE v a")
    ask(peer, "HIMPORT DISCARD v")
    ask(peer, "HIMPORT DISCARD v")
    assert session.memory_bytes == one_field
    ask(peer, "HIMPORT DISCARDALL")
    assert session.memory_bytes == before
    ask(peer, "HIMPORT PREPARE u a")
    ask(peer, "RESET")
    assert session.memory_bytes == before


def test_in_a_transaction_and_events() -> None:
    setting = Listening()
    peer = setting.peer()
    replies = peer.transaction(
        ("HIMPORT", "PREPARE", "u", "a"), ("HIMPORT", "SET", "k", "u", 1), ("HGET", "k", "a")
    )
    assert replies == b"*3\r\n+OK\r\n+OK\r\n$1\r\n1\r\n"
    assert [event for _, event, _ in setting.events()] == [b"new", b"hset"]
    ask(peer, "HIMPORT SET k u 2")
    assert [event for _, event, _ in setting.events()] == [b"hset"]


def test_client_list_counts_the_memory_of_fieldsets() -> None:
    peer = InProcess().peer()

    def total() -> int:
        return int(peer.command("CLIENT", "INFO").split(b"tot-mem=")[1].split()[0])

    before = total()
    peer.command("HIMPORT", "PREPARE", "set", *(b"%0100d" % number for number in range(10)))
    assert before + 1000 < total() < before + 2000
    peer.command("HIMPORT", "DISCARD", "set")
    assert total() == before
