"""Streams behave as a plain model; the rows they report match their content; scripts that fail
leave no trace; and a value that is loaded, or recovered over half a fold, is the same."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import RowOp
from holdfast.store.change.runs import rows_in
from holdfast.store.values import (
    stream_entries,
    stream_id,
    stream_producers,
    stream_references,
)
from holdfast.store.values.stream import ROWS, Stream
from holdfast.store.values.stream_entries import Entries
from holdfast.store.values.stream_group import FIRST_RETURNED
from holdfast.store.values.stream_id import (
    MAX_ID,
    from_row,
    id_of,
    parts_of,
    signed,
    text_of,
    to_row,
)
from tests.store.list_rows import roll_back

KEY_ID = 7
Rows = dict[tuple[int, Any], Any]


def rows_of(stream: Stream) -> Rows:
    return {(table, sub): row for table, sub, row in stream.rows()}


def write(rows: Rows, ops: list[RowOp]) -> None:
    for table, key_id, sub, row in ops:
        assert key_id == KEY_ID
        if row is None:
            rows.pop((table, sub), None)
        else:
            rows[table, sub] = row


def loaded(rows: Rows) -> Stream:
    """As Tables.value does it."""
    stream = Stream(KEY_ID)
    for table, apply in ROWS.items():
        for (row_table, sub), row in sorted(rows.items(), key=repr):
            if row_table == table:
                apply(stream, sub, row)
    return stream


class Model:
    """A stream, and its expected content: entries and pending entries as dicts."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.log = ChangeLog()
        self.subject = Stream(KEY_ID)
        self.entries: dict[int, tuple[bytes, ...]] = {}
        self.pending: dict[bytes, dict[int, bytes]] = {}  # an empty name: returned
        self.rows: Rows = {}  # as the file would have them, all folded
        self.subject.create(self.log)
        self.take_ops()

    # -- mutators -----------------------------------------------------------------------------

    def add(self) -> None:
        last = self.subject.last_id
        entry_id = last + self.rng.choice([1, 2, id_of(1, 0)])
        fields = tuple(self.rng.choice([b"a", b"12", b"x" * 70]) for _ in range(2))
        self.subject.add(entry_id, fields, self.log)
        self.entries[entry_id] = fields

    def delete(self) -> None:
        entry_id = self.any_id()
        assert self.subject.delete(entry_id, self.log) == (entry_id in self.entries)
        self.entries.pop(entry_id, None)

    def trim(self) -> None:
        count = self.rng.randrange(0, 4)
        self.subject.trim(count, self.log)
        for entry_id in sorted(self.entries)[:count]:
            del self.entries[entry_id]

    def set_group(self) -> None:
        name = self.rng.choice([b"g", b"h"])
        self.subject.set_group(name, self.any_id(), self.rng.choice([None, 3]), self.log)
        self.pending.setdefault(name, {})

    def delete_group(self) -> None:
        if self.pending and self.rng.random() < 0.3:
            name = self.rng.choice(sorted(self.pending))
            self.subject.delete_group(self.subject.groups[name], self.log)
            del self.pending[name]

    def assign(self) -> None:
        if self.pending:
            name = self.rng.choice(sorted(self.pending))
            group, consumer = self.subject.groups[name], self.rng.choice([b"alice", b"bob"])
            entry_id = self.any_id()
            self.subject.see_consumer(group, consumer, self.rng.randrange(9), self.log)
            row = (consumer, self.rng.randrange(9), self.rng.randrange(9))
            self.subject.assign(group, entry_id, row, self.log)
            self.subject.pass_to(group, [entry_id], self.log)
            self.pending[name][entry_id] = consumer

    def release(self) -> None:
        if self.pending:
            name = self.rng.choice(sorted(self.pending))
            entry_id = self.any_id()
            was_there = self.subject.release(self.subject.groups[name], to_row(entry_id), self.log)
            assert was_there == (self.pending[name].pop(entry_id, None) is not None)

    def hand_back(self) -> None:
        if self.pending:
            name = self.rng.choice(sorted(self.pending))
            entry_id = self.any_id()
            self.subject.hand_back(self.subject.groups[name], to_row(entry_id), 3, self.log)
            self.pending[name][entry_id] = b""

    def delete_by_policy(self) -> None:
        """Or a trim, which here may remove any number of entries."""
        policy, entry_id = self.rng.randrange(3), self.any_id()
        is_referenced = any(
            group.last_id < entry_id or entry_id in self.pending[name]
            for name, group in self.subject.groups.items()
        )
        done = stream_references.delete(self.subject, entry_id, policy, self.log)
        if policy == stream_references.ONLY_ACKNOWLEDGED and is_referenced:
            assert done is None
            return
        assert done == (self.entries.pop(entry_id, None) is not None)
        if policy == stream_references.DELETE_REFERENCES:
            for pending in self.pending.values():
                pending.pop(entry_id, None)

    def trim_by_policy(self) -> None:
        policy, min_id = self.rng.randrange(1, 3), self.any_id()
        kept = {
            entry_id
            for entry_id in self.entries
            if policy == stream_references.ONLY_ACKNOWLEDGED
            and stream_references.is_referenced(self.subject, entry_id)
        }
        stream_references.trim(self.subject, None, min_id, 0, policy, self.log)
        for entry_id in [each for each in self.entries if each < min_id and each not in kept]:
            del self.entries[entry_id]
            if policy == stream_references.DELETE_REFERENCES:
                for pending in self.pending.values():
                    pending.pop(entry_id, None)

    def record(self) -> None:
        """The message of a producer, which may have sent it before."""
        stream_producers.begin(self.subject, 1, 3, self.log)
        producer, iid = self.rng.choice([b"p", b"q"]), self.rng.choice([b"1", b"2", b"3", b"4"])
        now_ms = parts_of(self.subject.last_id)[0] + self.rng.choice([0, 0, 2000])
        if stream_producers.find(self.subject, producer, iid, now_ms) is not None:
            stream_producers.count_duplicate(self.subject, self.log)
            return
        entry_id = id_of(now_ms + 1, 0)
        self.subject.add(entry_id, (b"a", b"b"), self.log)
        self.entries[entry_id] = (b"a", b"b")
        stream_producers.record(self.subject, producer, iid, entry_id, now_ms, self.log)

    def configure(self) -> None:
        if self.subject.idempotence is not None and self.rng.random() < 0.2:
            stream_producers.configure(self.subject, None, self.rng.choice([2, 3]), self.log)

    def delete_consumer(self) -> None:
        for name, pending in self.pending.items():
            group = self.subject.groups[name]
            if b"bob" in group.consumers and self.rng.random() < 0.3:
                self.subject.delete_consumer(group, group.consumers[b"bob"], self.log)
                for entry_id in [i for i, consumer in pending.items() if consumer == b"bob"]:
                    del pending[entry_id]

    MUTATORS: tuple[Callable[["Model"], None], ...] = (
        add, add, add, add, delete, trim, set_group, delete_group, assign, assign, release,
        delete_consumer, hand_back, hand_back, delete_by_policy, trim_by_policy, record, record,
        configure,
    )  # fmt: skip

    def any_id(self) -> int:
        known = sorted(self.entries)
        return self.rng.choice([*known, *known, 1, self.subject.last_id + 5])

    # -- one step -----------------------------------------------------------------------------

    def take_ops(self) -> list[RowOp]:
        self.log.close_runs()
        ops = [single for op in self.log.ops for single in rows_in(op)]
        self.log.ops = []
        write(self.rows, ops)
        return ops

    def step(self) -> None:
        """One batch."""
        before = dict(self.rows)
        for _ in range(self.rng.choice([1, 1, 1, 10])):
            self.rng.choice(self.MUTATORS)(self)
            luck = self.rng.random()
            if luck < 0.1:
                self.fail_a_script()
            elif luck < 0.2:
                self.log.end_run()
                self.log.undo = []
                self.rng.choice(self.MUTATORS)(self)
                self.log.undo = None
        ops = self.take_ops()
        self.check()
        if self.rng.random() < 0.2:
            self.recover(before, ops)

    def recover(self, before: Rows, ops: list[RowOp]) -> None:
        """The journal is applied over tables that have some of it, and again."""
        half = dict(before)
        latest = {(table, sub): row for table, _, sub, row in ops}
        for place in self.rng.sample(list(latest), self.rng.randint(0, len(latest))):
            half.pop(place, None)
            if latest[place] is not None:
                half[place] = latest[place]
        recovered = loaded(half)
        for _ in range(2):
            for table, _, sub, row in ops:
                ROWS[table](recovered, sub, row)
        assert rows_of(recovered) == self.rows
        assert recovered.nbytes == self.subject.nbytes

    def fail_a_script(self) -> None:
        before, nbytes = rows_of(self.subject), self.subject.nbytes
        ops = len(self.log.ops)
        entries = dict(self.entries)
        pending = {name: dict(ids) for name, ids in self.pending.items()}
        self.log.end_run()
        self.log.undo = []
        for _ in range(5):
            self.rng.choice(self.MUTATORS)(self)
        roll_back(self.log)
        self.log.undo = None
        del self.log.ops[ops:]
        self.entries, self.pending = entries, pending
        assert rows_of(self.subject) == before
        assert self.subject.nbytes == nbytes

    def check(self) -> None:
        subject = self.subject
        assert dict(subject.range(0)) == self.entries
        assert [i for i, _ in subject.range(0)] == sorted(self.entries)
        assert len(subject) == len(self.entries)
        assert rows_of(subject) == self.rows
        assert self.log.used_bytes == subject.nbytes
        low, high = sorted((self.any_id(), self.any_id()))
        expected = [i for i in sorted(self.entries) if low <= i <= high]
        assert [i for i, _ in subject.range(low, high)] == expected
        assert [i for i, _ in subject.entries.reversed_range(low, high)] == expected[::-1]
        for name, pending in self.pending.items():
            group = subject.groups[name]
            held = {i: one.consumer_name for i, one in group.pending.range(0, MAX_ID)}
            assert held == pending
            times = [one.delivered_at_ms for _, one in group.pending.oldest()]
            assert times == sorted(times)
            assert (
                group.returned
                == sum(time < 0 for time in times)
                == len([name for name in pending.values() if not name])
            )
            for consumer in group.consumers.values():
                own = [i for i, _ in consumer.pending.range(0, MAX_ID)]
                assert own == sorted(i for i, who in pending.items() if who == consumer.name)


def test_returned_entries_keep_the_order_of_their_return(rng: random.Random) -> None:
    """Also when they are loaded, by id, and when one is returned again."""
    model = Model(rng)
    stream, log = model.subject, model.log
    stream.set_group(b"g", 0, 0, log)
    for entry_id in (5, 2, 9, 2, 1):
        stream.hand_back(stream.groups[b"g"], to_row(entry_id), 1, log)
    model.take_ops()
    for each in (stream, loaded(model.rows)):
        group = each.groups[b"g"]
        assert [i for i, _ in group.pending.oldest()] == [5, 9, 2, 1]
        each.hand_back(group, to_row(5), 1, ChangeLog())
        assert [i for i, _ in group.pending.oldest()] == [9, 2, 1, 5]
        assert group.last_returned == FIRST_RETURNED + 6


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_equals_its_model(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(stream_entries, "NODE_ENTRIES", rng.choice([2, 3, 100]))
    model = Model(rng)
    for _ in range(200):
        model.step()
    again = loaded(model.rows)
    assert rows_of(again) == model.rows
    assert again.nbytes == model.subject.nbytes


def test_a_copy_has_everything_and_is_its_own(rng: random.Random) -> None:
    model = Model(rng)
    for _ in range(200):
        model.step()
    log = ChangeLog()
    copy = model.subject.copy(8, log)
    assert rows_of(copy) == model.rows
    assert {(table, sub): row for table, _, sub, row in log.ops} == model.rows
    assert {op[1] for op in log.ops} == {8}
    assert copy.nbytes == model.subject.nbytes
    copy.add(copy.last_id + 1, (b"a", b"b"), log)
    model.check()


def test_an_entry_and_an_acknowledgement_are_few_rows() -> None:
    """However long the stream is, nothing is written again."""
    stream, log = Stream(KEY_ID), ChangeLog()
    for number in range(1, 1001):
        stream.add(id_of(number, 0), (b"a", b"b"), log)
    assert len(log.ops) == 1
    log.close_runs()
    *entries, meta = rows_in(log.ops[0])
    assert len(entries) == 1000
    assert meta[3][2] == 1000  # the counters only once, and as they are now
    stream.set_group(b"g", 0, 0, log)
    group = stream.groups[b"g"]
    stream.see_consumer(group, b"c", 1, log)
    stream.assign(group, id_of(5, 0), (b"c", 1, 1), log)
    stream.release(group, to_row(id_of(5, 0)), log)
    stream.pass_to(group, [id_of(5, 0), id_of(6, 0)], log)
    stream.delete(id_of(7, 0), log)
    assert len(log.ops) == 7


def test_many_entries_in_nodes() -> None:
    entries = Entries()
    fields = (b"a", b"b")
    for number in range(1, 100_001):
        entries.put(number, fields)
    assert entries.get(50_000) == fields
    assert entries.get(100_001) is None
    assert next(entries.range(70_000, MAX_ID)) == (70_000, fields)
    assert entries.excess(None, 30_000) == 29_999
    assert entries.excess_nodes(50, 0, 0) == 99_900
    for number in range(100_000, 0, -1):  # as a failed script brings them back
        assert entries.pop(number) == fields
    for number in range(10_000, 0, -1):
        entries.put(number, fields)
    assert max(len(node.ids) for node in entries.nodes) <= 2 * stream_entries.NODE_ENTRIES
    assert len(entries) == 10_000


@pytest.mark.parametrize("ms", [0, 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("sequence", [0, 1, (1 << 64) - 1])
def test_ids(ms: int, sequence: int) -> None:
    entry_id = id_of(ms, sequence)
    assert parts_of(entry_id) == (ms, sequence)
    assert from_row(to_row(entry_id)) == entry_id
    assert text_of(entry_id) == f"{ms}-{sequence}".encode()


def test_counters_begin_at_the_other_end() -> None:
    assert signed((1 << 63) - 1) == (1 << 63) - 1
    assert signed(1 << 63) == -(1 << 63)
    assert signed(-5) == -5


def test_ids_whose_numbers_hash_alike_are_told_apart() -> None:
    """Else each one that is delivered or acknowledged would be compared with all the others."""
    ids = [id_of(ms, 8 * (2000 - ms)) for ms in range(1, 2001)]
    assert len(set(map(hash, ids))) == 1
    stream, log = Stream(KEY_ID), ChangeLog()
    stream.set_group(b"g", 0, 0, log)
    group = stream.groups[b"g"]
    consumer = stream.see_consumer(group, b"c", 1, log)
    stream.deliver(group, consumer, ids, 1, log)
    for pending in (group.pending, consumer.pending):
        [by_id] = pending.parts()
        assert len(by_id) == len(set(map(hash, by_id))) == 2000


def test_ids_are_right_whatever_another_thread_does_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the milliseconds and all that follows from them, as Python may change threads there.
    (Where it is compiled it does not.)"""
    made = stream_id.id_of

    def interrupted(ms: int, sequence: int) -> int:
        monkeypatch.setattr(stream_id, "id_of", made)
        assert stream_id.join(9, 1) == made(9, 1)
        assert stream_id.row_at(7, 3) == to_row(made(7, 3))
        return made(ms, sequence)

    for ms in (5, 7, 9):
        monkeypatch.setattr(stream_id, "id_of", interrupted)
        assert stream_id.join(ms, 4) == made(ms, 4)
        assert stream_id.row_at(ms, 4) == made(ms, 4).to_bytes(16, "big")
        assert stream_id.text_at(ms, 4) == b"%d-4" % ms
