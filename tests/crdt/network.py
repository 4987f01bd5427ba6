"""Replicas in memory, each with commands and a log, and links that are pulled by hand.

This is a small model of the server between `crdt` and the disk, without sockets and files. Clocks
are injected and stand still.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import msgspec

from holdfast.clock import ManualClock
from holdfast.crdt.causal_log import CausalLog, Confirmations, Record, decode, encode, is_news
from holdfast.crdt.dots import Author, Vector, join
from holdfast.crdt.effects import Effect, RowChange, frozen
from holdfast.crdt.flush import FLUSHED, clearings, flush, points_of
from holdfast.crdt.hlc import HybridClock
from holdfast.crdt.replicated_key import EXPIRY, ReplicatedKey
from holdfast.crdt.replicated_stream import ReplicatedGroup
from holdfast.store.values.stream_id import to_row

WRONG_TYPE = "WRONGTYPE"

Snapshot = tuple[Vector, dict[bytes, tuple[tuple[str, Any, Any], ...]]]


class Replica:
    """One server: its keys, its vector of seen records, its log. Every command is one record;
    `multi` joins several."""

    is_news: Callable[[Vector, Record], bool] = staticmethod(is_news)
    author_of: Callable[[int, int, Vector], Author] = Author

    def __init__(self, number: int, clock: ManualClock | None = None) -> None:
        self.number = number
        self.clock = clock or ManualClock()
        self.hlc = HybridClock(self.clock.now_ms)
        self.keys: dict[bytes, ReplicatedKey] = {}
        self.seen: Vector = {}
        self.log: CausalLog[Record] = CausalLog()
        self.confirmations = Confirmations(())
        self.alarms: list[int] = []
        self._author: Author | None = None
        self._changes: list[tuple[bytes, str, Effect]] = []

    # -- writing records ----------------------------------------------------------------------

    @contextmanager
    def multi(self) -> Iterator[Author]:
        """Everything within is one record. Within another one it is part of that."""
        if self._author is not None:
            yield self._author
            return
        author = self._author = type(self).author_of(self.number, self.hlc.tick(), self.seen)
        try:
            yield author
        finally:
            self._author = None
        changes, self._changes = tuple(self._changes), []
        if changes:
            after = self.seen.get(self.number, 0)
            record = Record(self.number, after, max(author.seq, after + 1), author.hlc, changes)
            self.seen[self.number] = record.seq
            self.log.append(record)

    def emit(self, name: bytes, kind: str, effect: Effect) -> None:
        self.apply(name, kind, effect)
        self._changes.append((name, kind, effect))

    def apply(self, name: bytes, kind: str, effect: Effect) -> list[RowChange]:
        return self.key(name).integrate(kind, effect)

    def apply_flush(self, effect: Effect) -> None:
        points = points_of(effect)
        for name, key in list(self.keys.items()):
            for kind, clearing in clearings(effect, key, points.get(name, {})):
                self.apply(name, kind, clearing)

    def key(self, name: bytes) -> ReplicatedKey:
        return self.keys.setdefault(name, ReplicatedKey())

    @contextmanager
    def _changing(self, name: bytes, kind: str) -> Iterator[tuple[Any, Author]]:
        """The value for a command of that type, and the author of the change."""
        key = self.key(name)
        assert key.type in (None, kind), WRONG_TYPE
        with self.multi() as author:
            for other, effect in key.supersede(kind, author):
                self.emit(name, other, effect)
            yield key.part(kind), author

    # -- commands -----------------------------------------------------------------------------

    def delete(self, name: bytes) -> None:
        with self.multi() as author:
            for kind, effect in self.key(name).delete(author):
                self.emit(name, kind, effect)

    def flush(self) -> None:
        with self.multi() as author:
            effect = flush(self.keys.items(), author)
            self.apply_flush(effect)
            self._changes.append((b"", FLUSHED, effect))

    def view(self, name: bytes) -> Any:
        return self.key(name).view()

    def expire_at(self, name: bytes, expires_at_ms: int | None) -> None:
        """EXPIREAT, or PERSIST."""
        with self.multi() as author:
            self.emit(name, EXPIRY, self.key(name).part(EXPIRY).write(None, expires_at_ms, author))

    def expire(self, name: bytes, seconds: int) -> None:
        self.expire_at(name, self.clock.now_ms() + 1000 * seconds)

    def persist(self, name: bytes) -> None:
        self.expire_at(name, None)

    def ttl_s(self, name: bytes) -> int | None:
        expires_at_ms = self.key(name).expires_at_ms
        return None if expires_at_ms is None else (expires_at_ms - self.clock.now_ms()) // 1000

    def rpush(self, name: bytes, *values: bytes) -> None:
        with self._changing(name, "list") as (value, author):
            self.emit(name, "list", value.push_right(values, author))

    def lpush(self, name: bytes, *values: bytes) -> None:
        with self._changing(name, "list") as (value, author):
            self.emit(name, "list", value.push_left(values, author))

    def lpop(self, name: bytes, count: int = 1) -> list[bytes]:
        with self._changing(name, "list") as (value, _):
            popped: list[bytes] = value.range(0, count - 1)
            if popped:
                self.emit(name, "list", value.pop_left(count))
        return popped

    def rpop(self, name: bytes, count: int = 1) -> list[bytes]:
        with self._changing(name, "list") as (value, _):
            popped: list[bytes] = value.range(-count, -1)[::-1]
            if popped:
                self.emit(name, "list", value.pop_right(count))
        return popped

    def lset(self, name: bytes, i: int, new: bytes) -> bool:
        with self._changing(name, "list") as (value, author):
            effect = value.set(i, new, author)
            if effect is not None:
                self.emit(name, "list", effect)
        return effect is not None

    def linsert(self, name: bytes, where: str, pivot: bytes, new: bytes) -> int:
        with self._changing(name, "list") as (value, author):
            at = next(value.find(pivot), None)
            if at is None:
                return -1 if value else 0
            self.emit(name, "list", value.insert(at + (where == "AFTER"), new, author))
        return len(value)

    def ltrim(self, name: bytes, start: int, stop: int) -> None:
        with self._changing(name, "list") as (value, author):
            self.emit(name, "list", value.trim(start, stop, author))

    def lrem(self, name: bytes, count: int, old: bytes) -> int:
        with self._changing(name, "list") as (value, _):
            effect = value.remove(count, old)
            if effect[1]:
                self.emit(name, "list", effect)
        return len(effect[1])

    def lindex(self, name: bytes, i: int) -> bytes | None:
        return self.key(name).part("list").index(i)  # type: ignore[no-any-return]

    def lrange(self, name: bytes, start: int = 0, stop: int = -1) -> list[bytes]:
        return self.key(name).part("list").range(start, stop)  # type: ignore[no-any-return]

    def set(self, name: bytes, new: bytes) -> None:
        """Replace the value and its expiry by this string."""
        key = self.key(name)
        with self.multi() as author:
            for other, effect in key.supersede("string", author):
                self.emit(name, other, effect)
            self.emit(name, "string", key.part("string").write(None, new, author))
            if key.expires_at_ms is not None:
                self.persist(name)

    def incrby(self, name: bytes, amount: int | str) -> None:
        with self._changing(name, "string") as (value, author):
            self.emit(name, "string", value.add(None, amount, author))

    def write(self, kind: str, name: bytes, member: bytes, new: Any = None) -> None:
        """SADD, HSET, ZADD."""
        with self._changing(name, kind) as (value, author):
            self.emit(name, kind, value.write(member, new, author))

    def remove(self, kind: str, name: bytes, member: bytes) -> None:
        """SREM, HDEL, ZREM."""
        with self._changing(name, kind) as (value, author):
            if member in value:
                self.emit(name, kind, value.remove(member, author))

    def increment(self, name: bytes, amount: bytes, result: bytes) -> None:
        """INCRBYFLOAT, with the result that the client is told."""
        with self._changing(name, "string") as (value, author):
            self.emit(name, "string", value.increment(None, amount, result, author))

    def hincrby(self, name: bytes, field: bytes, amount: int | str) -> None:
        with self._changing(name, "hash") as (value, author):
            self.emit(name, "hash", value.add(field, amount, author))

    def zincrby(self, name: bytes, member: bytes, amount: float) -> None:
        with self._changing(name, "zset") as (value, author):
            self.emit(name, "zset", value.increment(member, amount, author))

    def pfadd(self, name: bytes, *ranks: tuple[int, int]) -> None:
        with self._changing(name, "hyperloglog") as (value, author):
            self.emit(name, "hyperloglog", value.add(ranks, author))

    def xadd(self, name: bytes, *fields: bytes, entry_id: int | None = None) -> int:
        with self._changing(name, "stream") as (value, author):
            new = entry_id or value.next_id(self.clock.now_ms(), self.number)
            self.emit(name, "stream", value.enter(new, fields, author))
        return new

    def xdel(self, name: bytes, *ids: int) -> None:
        with self._changing(name, "stream") as (value, author):
            self.emit(name, "stream", value.leave(ids, author))

    def groups(self, name: bytes) -> dict[bytes, ReplicatedGroup]:
        return self.key(name).part("stream").groups()  # type: ignore[no-any-return]

    def xgroup_create(self, name: bytes, group: bytes) -> None:
        with self._changing(name, "stream") as (value, author):
            self.emit(name, "stream", value.create_group(group, 0, 0, author))

    def xgroup_destroy(self, name: bytes, group: bytes) -> None:
        with self._changing(name, "stream") as (value, author):
            self.emit(name, "stream", value.destroy_group(group, author))

    def xreadgroup(self, name: bytes, group: bytes, consumer: bytes) -> list[int]:
        """All that is new to the group."""
        with self._changing(name, "stream") as (value, author):
            dot, last_id = self.groups(name)[group].dots[0], self.groups(name)[group].last_id
            now_ms = self.clock.now_ms()
            ids = [entry_id for entry_id, _ in value.view() if entry_id > last_id]
            self.emit(name, "stream", value.see_consumer(dot, consumer, now_ms, author))
            for entry_id in ids:
                row = (consumer, now_ms, 1)
                self.emit(name, "stream", value.assign(dot, to_row(entry_id), row, author))
            if ids:
                self.emit(name, "stream", value.pass_to(dot, ids[-1], None, author))
        return ids

    def xack(self, name: bytes, group: bytes, *ids: int) -> None:
        with self._changing(name, "stream") as (value, author):
            dots = self.groups(name)[group].dots
            self.emit(
                name, "stream", value.release(dots, [to_row(entry_id) for entry_id in ids], author)
            )

    def xgroup_delconsumer(self, name: bytes, group: bytes, consumer: bytes) -> None:
        with self._changing(name, "stream") as (value, author):
            found = self.groups(name)[group]
            id_rows = [id_row for id_row, row in found.pending.items() if row[0] == consumer]
            effect = value.delete_consumer(found.dots, consumer, id_rows, author)
            self.emit(name, "stream", effect)

    # -- replication --------------------------------------------------------------------------

    def receive(self, records: Iterable[Record]) -> None:
        for record in records:
            if type(self).is_news(self.seen, record):
                self.alarms += [ahead] if (ahead := self.hlc.observe(record.hlc)) else []
                for name, kind, effect in record.changes:
                    if kind == FLUSHED:
                        self.apply_flush(effect)
                    else:
                        self.apply(name, kind, effect)
                self.seen[record.origin] = max(record.seq, self.seen.get(record.origin, 0))
                self.log.append(record)

    def pull(self, other: "Replica", limit: int | None = None) -> None:
        """The records that the other has and this one has not: from its log, as bytes, up to a cut;
        or a snapshot if its log does not reach back far enough."""
        if not other.log.can_serve(self.seen):
            if self.log.can_serve(other.seen):  # spares the other a snapshot of ours
                other.receive(self.log.unseen(other.seen))
            self.merge(other.snapshot())
            return
        stream = [encode(record) for record in other.log.unseen(self.seen)]
        self.receive(map(decode, stream[:limit]))

    def snapshot(self) -> Snapshot:
        return dict(self.seen), {name: tuple(key.rows()) for name, key in self.keys.items()}

    def merge(self, snapshot: Snapshot) -> None:
        """Take another replica's state instead of its log. From then on only later records can be
        served."""
        other_seen, keys = snapshot
        for name in {*self.keys, *keys}:
            self.key(name).merge(keys.get(name, ()), self.seen, other_seen)
        self.seen = join(self.seen, other_seen)
        self.log = CausalLog(dict(self.seen))

    def restart(self) -> None:
        """Restart: only the content of a file remains: rows, vector, log, the clock's last
        stamp."""
        seen, keys = frozen(_reread(self.snapshot()))
        log: CausalLog[Record] = CausalLog(_reread(self.log.base))
        for record in self.log.unseen({}):
            log.append(decode(encode(record)))
        self.seen, self.log, self.keys = seen, log, {}
        self.hlc = HybridClock(self.clock.now_ms, self.hlc.last)
        for name, rows in keys.items():
            for kind, sub, row in frozen(rows):
                self.key(name).part(kind).apply(sub, row)

    def twin(self) -> "Replica":
        """One that is the same, and goes its own way."""
        twin = copy(self)
        twin.alarms = list(self.alarms)
        twin.restart()
        return twin

    def settle(self) -> None:
        """Cut the log and forget residue, as far as all members have confirmed."""
        stable = self.confirmations.stable(self.seen)
        self.log.cut(stable)
        for key in self.keys.values():
            key.settle(stable)

    def digest(self) -> dict[bytes, list[tuple[str, Any, Any]]]:
        """The state that must be equal on all replicas that have seen the same records."""
        facts = {name: sorted(key.facts(), key=repr) for name, key in self.keys.items()}
        return {name: rows for name, rows in facts.items() if rows}


def _reread(data: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(data), strict=False)


def cluster(count: int = 2, clock: ManualClock | None = None) -> list[Replica]:
    """Replicas 1, 2, … on one clock, as members of one cluster."""
    clock = clock or ManualClock()
    replicas = [Replica(number, clock) for number in range(1, count + 1)]
    for replica in replicas:
        replica.confirmations = Confirmations(
            other.number for other in replicas if other is not replica
        )
    return replicas


def sync(*replicas: Replica) -> None:
    """Every replica gets all records, and all confirmations of the others."""
    for _ in range(2):
        for receiver in replicas:
            for sender in replicas:
                if sender is not receiver:
                    receiver.pull(sender)
    for receiver in replicas:
        for sender in replicas:
            receiver.confirmations.acknowledge(sender.number, dict(sender.seen))
