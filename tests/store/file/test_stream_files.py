"""Streams in the file: all of one comes back, whether it was folded or is in the journal only."""

import re
from pathlib import Path

import pytest

from holdfast.store.check import check_file
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess, Peer

COMMANDS = [
    *(f"XADD s {number}-1 field {number}" for number in range(1, 301)),
    "XDEL s 7-1 250-1",
    "XGROUP CREATE s g 0",
    "XGROUP CREATE s other 5-1",
    "XGROUP CREATE empty g $ MKSTREAM",
    "XREADGROUP GROUP g alice COUNT 5 STREAMS s >",
    "XREADGROUP GROUP g bob COUNT 5 STREAMS s >",
    "XCLAIM s g bob 0 1-1",
    "XACK s g 2-1",
    "XTRIM s MAXLEN 250",
    "XADD gone 1-1 a b",
    "XGROUP CREATE gone g 0",
    "XREADGROUP GROUP g alice STREAMS gone >",
    "DEL gone",
    "XGROUP CREATE s destroyed 0",
    "XREADGROUP GROUP destroyed alice COUNT 3 STREAMS s >",
    "XGROUP DESTROY s destroyed",
]
QUESTIONS = ["XINFO STREAM s FULL COUNT 0", "XINFO STREAM empty FULL COUNT 0", "EXISTS gone"]


def ask(peer: Peer) -> list[bytes]:
    """Everything but how many nodes there are: entries that are loaded leave no gaps in them."""
    answers = [peer.command(*question.split()) for question in QUESTIONS]
    return [re.sub(rb"(radix-tree-\w+\r\n):\d+", rb"\1", answer) for answer in answers]


@pytest.mark.parametrize("ends", ["folded", "killed", "half-folded"])
def test_a_stream_comes_back(tmp_path: Path, ends: str) -> None:
    path = tmp_path / "holdfast.db"
    store = FileStore(path)
    peer = InProcess({"appendfsync": "no"}, store).peer()
    for number, command in enumerate(COMMANDS):
        assert not peer.command(*command.split()).startswith(b"-"), command
        if ends == "half-folded" and number % 5 == 0:
            store.fold_step()
    answers = ask(peer)
    if ends == "folded":
        store.close()
    else:
        store.abandon()
    assert check_file(path) == []

    store = FileStore(path)
    peer = InProcess({"appendfsync": "no"}, store).peer()
    assert ask(peer) == answers
    store.close()
    assert check_file(path) == []
