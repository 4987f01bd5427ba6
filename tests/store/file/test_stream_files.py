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
    "XADD set * a b",
    "XGROUP CREATE s destroyed 0",
    "XREADGROUP GROUP destroyed alice COUNT 3 STREAMS s >",
    "XNACK s destroyed FAIL IDS 1 52-1",
    "XGROUP DESTROY s destroyed",
    "XREADGROUP GROUP other carol COUNT 9 STREAMS s >",
    "XNACK s other FATAL IDS 3 58-1 51-1 55-1",
    "XNACK s other SILENT IDS 1 53-1",
    "XDELEX s DELREF IDS 2 54-1 100-1",
    "XACKDEL s other ACKED IDS 2 56-1 57-1",
    "XTRIM s MAXLEN 100 ACKED",
    *(f"XADD once IDMP producer {number} * field {number}" for number in range(40)),
    "XADD once IDMPAUTO other * field value",
    "XADD once IDMPAUTO other * field value",
    "XCFGSET set IDMP-MAXSIZE 2",
    *(f"XADD set IDMP p {number} * a b" for number in range(5)),
    "XADD gone IDMP p 1 * a b",
    "DEL gone",
]
QUESTIONS = [
    "XINFO STREAM s FULL COUNT 0",
    "XINFO STREAM empty FULL COUNT 0",
    "EXISTS gone",
    "XINFO STREAM once FULL COUNT 0",
    "XINFO STREAM set FULL COUNT 0",
]
# Messages that come again get the reply that they got the first time.
AGAIN = ["XADD once IDMP producer 25 * field 25", "XADD set IDMP p 3 * a b"]
CLAIM = "XREADGROUP GROUP other dave CLAIM 999999 COUNT 3 STREAMS s >"
CLAIMED = [b"58-1", b"51-1", b"55-1"]  # in the order in which they were returned


def ask(peer: Peer) -> list[bytes]:
    """Everything but how many nodes there are: entries that are loaded leave no gaps in them."""
    answers = [peer.command(*question.split()) for question in QUESTIONS]
    return [re.sub(rb"(radix-tree-\w+\r\n):\d+", rb"\1", answer) for answer in answers]


@pytest.mark.parametrize("ends", ["folded", "killed", "half-folded"])
def test_a_stream_comes_back(tmp_path: Path, ends: str) -> None:
    path = tmp_path / "holdfast.db"
    store = FileStore(path)
    peer = InProcess({"appendfsync": "no"}, store).peer()
    replies = {}
    for number, command in enumerate(COMMANDS):
        replies[command] = peer.command(*command.split())
        assert not replies[command].startswith(b"-"), command
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
    assert [peer.command(*command.split()) for command in AGAIN] == [*map(replies.get, AGAIN)]
    assert re.findall(rb"\d+-1(?=\r)", peer.command(*CLAIM.split())) == CLAIMED
    store.close()
    assert check_file(path) == []
