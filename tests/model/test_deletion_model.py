"""Random commands under policies that delete keys. The data must be the written data without the
keys announced as evicted, also after restarts. Seeds replay."""

import random
from pathlib import Path

import pytest

from holdfast.server.core.cron import Cron
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess

POLICIES = [
    *("allkeys-lru", "allkeys-lfu", "allkeys-random"),
    *("volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"),
]
NAMES = [f"k{number}" for number in range(60)]


class Work:
    def __init__(self, path: Path, policy: str, seed: int) -> None:
        self.path, self.policy = path, policy
        self.rng = random.Random(seed)
        self.model: dict[str, tuple[bytes, bool]] = {}  # value, and whether it expires
        self.evicted = 0
        self.start()

    def start(self) -> None:
        self.store = FileStore(self.path)
        self.world = InProcess(
            {
                "appendfsync": "no",
                "maxmemory": "12000",
                "maxmemory-policy": self.policy,
                "maxmemory-samples": str(self.rng.choice([1, 5, 20])),
                "notify-keyspace-events": "Ee",
            },
            self.store,
        )
        self.peer, self.listener = self.world.peer(), self.world.peer()
        self.listener.command("SUBSCRIBE", "__keyevent@0__:evicted")
        self.cron = Cron(self.world.engine)

    def hear(self) -> None:
        for message in self.listener.replies():
            name = message.split(b"\r\n")[-2].decode()
            _, expires = self.model.pop(name)
            assert expires or self.policy.startswith("allkeys")
            self.evicted += 1

    def step(self) -> None:
        name, rng = rng_name(self.rng), self.rng
        what = rng.random()
        if what < 0.6:
            value = b"%d" % rng.randrange(10) * rng.randrange(1, 400)
            ttl = ("EX", rng.randrange(1000, 9000)) if rng.random() < 0.5 else ()
            reply = self.ask("SET", name, value, *ttl)
            if reply == b"+OK\r\n":
                self.model[name] = value, bool(ttl)
        elif what < 0.7:
            assert self.ask("DEL", name) == b":%d\r\n" % (self.model.pop(name, None) is not None)
        elif what < 0.75 and self.ask("PERSIST", name) == b":1\r\n":
            self.model[name] = self.model[name][0], False
        elif what < 0.85:
            self.world.clock.advance(rng.choice([0.1, 1, 70]))
        elif what < 0.95:
            for _ in range(3):
                self.store.fold_step()
        else:
            self.cron.tick()
            self.peer.replies()
        self.hear()

    def ask(self, *args: object) -> bytes:
        """Keys are evicted before the command runs."""
        reply = self.peer.command(*(arg if isinstance(arg, bytes) else str(arg) for arg in args))
        self.hear()
        return reply

    def restart(self) -> None:
        if self.rng.random() < 0.5:
            self.store.close()
        else:
            self.store.abandon()
        self.start()

    def compare(self) -> None:
        for name in NAMES:
            reply = self.peer.command("GET", name)
            self.hear()
            value = self.model.get(name)
            found = None if reply == b"$-1\r\n" else reply.split(b"\r\n")[1]
            assert found == (None if value is None else value[0]), name
        assert self.peer.command("DBSIZE") == b":%d\r\n" % len(self.model)


def rng_name(rng: random.Random) -> str:
    return NAMES[min(rng.randrange(len(NAMES)), rng.randrange(len(NAMES)))]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(2))
def test_all_written_keys_are_left_but_the_evicted_ones(
    tmp_path: Path, policy: str, seed: int
) -> None:
    work = Work(tmp_path / "a.db", policy, seed)
    for _ in range(4):
        for _ in range(150):
            work.step()
        work.compare()
        work.restart()
        for _ in range(10):
            work.cron.tick()  # loads values that the start left in the file
            work.peer.replies()
            work.hear()
        assert work.store.keyspace.databases[0].space.cold == 0
        work.compare()
    assert work.evicted > 0
    work.store.close()
