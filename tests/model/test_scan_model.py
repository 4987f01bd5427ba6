"""SCAN while keys come, go, change and take each other's names: a name that is there from the
first call to the last is found, and nothing is found that was never there.

The store is a file, folds and evictions happen between any two commands.
"""

import random
from pathlib import Path

import pytest

from holdfast.store.fold import fold
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess, Peer
from tests.harness.rawclient import Argument

NAMES = [f"name:{number}" for number in range(60)]
FAR_S = 33_000_000_000


class Work:
    def __init__(self, rng: random.Random, store: FileStore) -> None:
        self.rng = rng
        self.store = store
        setting = InProcess({"appendfsync": "no"}, store)
        self.peer: Peer = setting.peer()
        self.names: set[str] = set()  # that exist
        self.standing: set[str] = set()  # that were there since the scan began
        self.ever: set[str] = set()  # that were there at some time since

    def run(self, *args: Argument) -> bytes:
        reply = self.peer.command(*args)
        assert not reply.startswith(b"-"), (args, reply)
        return reply

    def change(self) -> None:
        rng = self.rng
        one, other = rng.sample(NAMES, 2)
        kind = rng.choice(["SET", "RPUSH", "DEL", "DEL", "RENAME", "RENAME", "COPY", "MOVE", "USE"])
        if kind in ("SET", "USE"):
            self.run("SET", one, rng.choice(["1", "v" * 50]), *rng.choice([(), ("EXAT", FAR_S)]))
            self.came(one)
        elif kind == "RPUSH":
            if self.run("TYPE", one) == b"+string\r\n":
                self.run("DEL", one)
                self.went(one)
            self.run("RPUSH", one, *"abc"[: rng.randint(1, 3)])
            self.came(one)
        elif kind == "DEL":
            self.run("DEL", one)
            self.went(one)
        elif kind == "RENAME" and one in self.names:
            self.run("RENAME", one, other)
            self.went(one)
            self.came(other)
        elif kind == "COPY" and one in self.names:
            self.run("COPY", one, other, "REPLACE")
            self.came(other)
        elif kind == "MOVE" and self.run("MOVE", one, 1) == b":1\r\n":
            self.went(one)

    def came(self, name: str) -> None:
        self.names.add(name)
        self.ever.add(name)

    def went(self, name: str) -> None:
        self.names.discard(name)
        self.standing.discard(name)

    def disturb(self) -> None:
        """An action of the server itself."""
        for _ in range(self.rng.choice([0, 0, 1, 3, 50])):
            self.store.fold_step()
        if self.rng.random() < 0.3:
            self.store.max_bytes = 1
            self.store.make_room()
            self.store.max_bytes = 0

    def scan(self) -> set[str]:
        """A whole iteration in the middle of other work."""
        self.standing, self.ever = set(self.names), set(self.names)
        seen: set[str] = set()
        cursor = "0"
        while True:
            cursor, names = parsed(self.run("SCAN", cursor, "COUNT", self.rng.randint(1, 12)))
            seen.update(names)
            if cursor == "0":
                return seen
            for _ in range(self.rng.randint(0, 6)):
                self.change()
                self.disturb()


def parsed(reply: bytes) -> tuple[str, list[str]]:
    words = [line for line in reply.decode().split("\r\n") if line[:1] not in ("*", "$", "")]
    return words[0], words[1:]


@pytest.mark.parametrize("run", range(12))
def test_a_name_that_is_there_throughout_is_found(
    run: int, rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "SLICE_ROWS", rng.choice([1, 5, 200]))
    store = FileStore(tmp_path / "scan.db")
    work = Work(rng, store)
    for _ in range(8):
        for _ in range(rng.randint(0, 60)):
            work.change()
        seen = work.scan()
        assert work.standing <= seen
        assert seen <= work.ever
        keys = work.run("KEYS", "*").decode().split("\r\n")
        assert sorted(keys[2::2]) == sorted(work.names)
    store.close()
