"""Random commands for a replica, and random networks, for the property tests.

Everything comes from one seeded generator, so a seed is a test case.
"""

import random
from collections.abc import Callable

from holdfast.clock import ManualClock
from holdfast.crdt.causal_log import Confirmations
from holdfast.store.values.stream_id import from_row
from tests.crdt.network import Replica, sync

FAMILIES = "list lset text set zset stream sketch any"
VALUES = [b"a", b"b", b"c", b"10", b"-3"]
SKEWS_MS = [0, 0, -40, 3_000, 3_600_000]  # the last one is too far for other clocks to follow


class Load:
    """Commands on few keys, so that they meet."""

    def __init__(self, rng: random.Random, families: str = FAMILIES) -> None:
        self.rng = rng
        self.count = 0
        self.families = families.split()
        self.may_flush = True

    def step(self, replica: Replica) -> None:
        family = self.rng.choice(self.families)
        if self.rng.random() < 0.1:
            with replica.multi():
                for _ in range(3):
                    self._command(family, replica)
        else:
            self._command(family, replica)

    def _command(self, family: str, replica: Replica) -> None:
        names = {"list": [b"l1", b"l2"], "text": [b"s", b"n"], "set": [b"m", b"h"]}
        name = self.rng.choice(names.get(family, [family.encode()]))
        key = replica.key(name)
        if self.rng.random() < 0.06:
            replica.delete(name)
            return
        if self.may_flush and self.rng.random() < 0.03:
            replica.flush()
            return
        kind = family
        if family == "any":  # one name for all types: clashes
            kind = {"string": "text", "hash": "set"}.get(key.type or "", key.type or "")
            kind = kind or self.rng.choice(["list", "text", "set", "zset"])
            if self.rng.random() < 0.2:
                replica.set(name, b"1")
                return
        if name == b"h":
            kind = "hash"
        wanted = {"text": "string", "sketch": "hyperloglog", "order": "list", "lset": "list"}.get(
            kind, kind
        )
        if key.type not in (None, wanted):
            return
        getattr(self, f"_{kind}")(replica, name)

    def _value(self) -> bytes:
        self.count += 1
        return self.rng.choice([*VALUES, b"v%d" % self.count, b"v%d" % self.count])

    def _list(self, replica: Replica, name: bytes) -> None:
        rng, length = self.rng, len(replica.lrange(name))
        i = rng.randint(-length - 1, length)
        pivot = replica.lindex(name, i) or b"?"
        commands: list[Callable[[], object]] = [
            lambda: replica.rpush(name, *(self._value() for _ in range(rng.randint(1, 3)))),
            lambda: replica.lpush(name, *(self._value() for _ in range(rng.randint(1, 3)))),
            lambda: replica.linsert(name, rng.choice(["BEFORE", "AFTER"]), pivot, self._value()),
            lambda: replica.linsert(name, rng.choice(["BEFORE", "AFTER"]), pivot, self._value()),
            lambda: replica.lset(name, i, self._value()),
            lambda: replica.lpop(name, rng.randint(1, 2)),
            lambda: replica.rpop(name),
            lambda: replica.lrem(name, rng.randint(-2, 2), pivot),
        ]
        if rng.random() < 0.05:
            replica.ltrim(name, 1, -2)
        else:
            rng.choice(commands)()

    def _lset(self, replica: Replica, name: bytes) -> None:
        """Few elements that are set again and again."""
        if len(replica.lrange(name)) < 2:
            replica.rpush(name, self._value())
        elif self.rng.random() < 0.1:
            replica.lpop(name)
        else:
            replica.lset(name, self.rng.randint(0, 1), self._value())

    def _order(self, replica: Replica, name: bytes) -> None:
        """A list again, but every value is unique and never replaced."""
        rng, values = self.rng, replica.lrange(name)
        pivot = rng.choice(values) if values else b"?"
        self.count += 1
        new = [b"%d.%d" % (self.count, i) for i in range(rng.randint(1, 3))]
        commands: list[Callable[[], object]] = [
            lambda: replica.rpush(name, *new),
            lambda: replica.lpush(name, *new),
            lambda: replica.linsert(name, "BEFORE", pivot, new[0]),
            lambda: replica.linsert(name, "AFTER", pivot, new[0]),
            lambda: replica.linsert(name, "AFTER", pivot, new[0]),
            lambda: replica.lpop(name),
            lambda: replica.rpop(name),
            lambda: replica.lrem(name, 1, pivot),
        ]
        rng.choice(commands)()

    def _text(self, replica: Replica, name: bytes) -> None:
        roll = self.rng.random()
        if roll < 0.4:
            replica.set(name, self.rng.choice(VALUES))
        elif roll < 0.5:
            replica.expire(name, self.rng.randint(1, 99))
        elif roll < 0.55:
            replica.persist(name)
        elif roll < 0.65:
            replica.incrby(name, f"{self.rng.randint(-9, 9)}.{self.rng.randint(0, 99):02}")
        else:
            replica.incrby(name, self.rng.randint(-9, 9))

    def _set(self, replica: Replica, name: bytes, kind: str = "set") -> None:
        member = self.rng.choice(VALUES)
        if self.rng.random() < 0.4:
            replica.remove(kind, name, member)
        elif kind == "hash":
            if self.rng.random() < 0.5:
                replica.hincrby(name, member, self.rng.randint(-9, 9))
            else:
                replica.write(kind, name, member, self._value())
        else:
            replica.write(kind, name, member)

    def _hash(self, replica: Replica, name: bytes) -> None:
        self._set(replica, name, "hash")

    def _zset(self, replica: Replica, name: bytes) -> None:
        member = self.rng.choice(VALUES)
        roll = self.rng.random()
        if roll < 0.3:
            replica.remove("zset", name, member)
        elif roll < 0.6:
            replica.write("zset", name, member, self.rng.choice([1.1, 2.5, 1e16, -0.1]))
        else:
            replica.zincrby(name, member, self.rng.choice([0.1, 0.2, -1e16, 3.0]))

    def _sketch(self, replica: Replica, name: bytes) -> None:
        replica.pfadd(name, (self.rng.randrange(16384), self.rng.randint(1, 50)))

    def _stream(self, replica: Replica, name: bytes) -> None:
        rng, group, consumer = self.rng, b"g", self.rng.choice([b"c1", b"c2"])
        roll = rng.random()
        ids = [entry_id for entry_id, _ in replica.key(name).part("stream").view()]
        if roll < 0.4:
            replica.xadd(name, b"f", self._value())
        elif roll < 0.5:
            replica.xdel(name, *ids[: rng.randint(0, 2)])
        elif group not in replica.groups(name):
            replica.xgroup_create(name, group)
        elif roll < 0.8:
            replica.xreadgroup(name, group, consumer)
        elif roll < 0.9:
            replica.xack(name, group, *map(from_row, list(replica.groups(name)[group].pending)[:2]))
        elif roll < 0.95:
            replica.xgroup_delconsumer(name, group, consumer)
        else:
            replica.xgroup_destroy(name, group)


def network(rng: random.Random, count: int, of: type[Replica] = Replica) -> list[Replica]:
    """Replicas whose clocks differ."""
    replicas = [
        of(number, ManualClock(1_700_000_000_000 + rng.choice(SKEWS_MS)))
        for number in range(1, count + 1)
    ]
    for replica in replicas:
        others = [other.number for other in replicas if other is not replica]
        replica.confirmations = Confirmations(others)
    return replicas


def disturb(rng: random.Random, replicas: list[Replica]) -> None:
    """One random event on the network: a link delivers some records, some of them twice; a server
    restarts; time passes; or a replica learns the confirmations of another."""
    one, other = rng.sample(replicas, 2)
    roll = rng.random()
    if roll < 0.6:
        one.pull(other, rng.choice([None, 1, 2, 5]))
    elif roll < 0.7:
        one.receive(list(other.log.unseen({}))[: rng.randint(0, 9)] if not other.log.base else ())
    elif roll < 0.8:
        one.restart()
    elif roll < 0.9:
        one.clock.advance(rng.choice([0.001, 1]))
    else:
        one.confirmations.acknowledge(other.number, dict(other.seen))
        one.settle()


def heal(replicas: list[Replica]) -> None:
    sync(*replicas)
