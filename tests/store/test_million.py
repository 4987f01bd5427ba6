"""Hashes, sets and sorted sets of a million elements, at their real size: the work of commands is
counted and compared with the same commands on a thousand.

Counted are the steps of the interpreter, comparisons of members and scores (C code makes some), and
the bytes allocated, which reveal copies; then the rows of the journal and the fold.
"""

import random
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest

from holdfast.errors import CommandError
from holdfast.server.config.config import Config
from holdfast.server.core.engine import Engine
from holdfast.server.scripts.scripts import NoSink
from holdfast.server.sessions.session import Session
from holdfast.store.change.ops import HASH_FIELDS, SET_MEMBERS, ZSET_MEMBERS, row_op
from holdfast.store.change.runs import rows_in
from holdfast.store.file.opening import open_database
from holdfast.store.file.tables import ROWS, put_names_sql
from holdfast.store.store import FileStore
from holdfast.store.values.zset import ZSet

pytestmark = [pytest.mark.slow, pytest.mark.source_only, pytest.mark.timeout(300)]

MILLION, THOUSAND = 1_000_000, 1000
MANY, FEW = 1024, 1025  # the ids of the two keys, and their names

# The allowed excess of a command on a million elements over the same one on a thousand, for each
# row it changes: a tree with a thousand times as many leaves is ten levels higher.
MORE_STEPS = 2000
MOST_COMPARISONS = 200
MOST_BYTES = 100_000


class Counted(bytes):
    comparisons = 0

    def __lt__(self, other: bytes) -> bool:
        Counted.comparisons += 1
        return bytes(self) < bytes(other)

    def __gt__(self, other: bytes) -> bool:
        Counted.comparisons += 1
        return bytes(self) > bytes(other)

    __hash__ = bytes.__hash__


class CountedFloat(float):
    def __lt__(self, other: float) -> bool:
        Counted.comparisons += 1
        return float(self) < float(other)

    def __gt__(self, other: float) -> bool:
        Counted.comparisons += 1
        return float(self) > float(other)


class Work:
    """Count the work of functions called within the `with`."""

    steps = comparisons = nbytes = 0

    def __enter__(self) -> "Work":
        self._before = sys.gettrace()
        Counted.comparisons = 0
        tracemalloc.start()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        self.nbytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self.comparisons = Counted.comparisons

    def _enter(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename == __file__:
            return None  # the comparisons, which are counted anyway
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        self.steps += event == "opcode"
        return self._step


def name_of(number: int) -> bytes:
    return b"name:%07d" % number


def rows(type_name: str, count: int) -> Iterator[tuple[Any, ...]]:
    """As the tables have them, without the key, in the order of names."""
    for number in range(count):
        if type_name == "hash":
            yield name_of(number), b"5", count - number, None
        elif type_name == "set":
            yield name_of(number), count - number
        else:
            yield name_of(number), float(number)


TABLES = {"hash": HASH_FIELDS, "set": SET_MEMBERS, "zset": ZSET_MEMBERS}


def make_file(path: Path, type_name: str) -> None:
    connection = open_database(path)
    table = ROWS[TABLES[type_name]]
    with connection:
        connection.execute("INSERT INTO redis_space_sizes VALUES (0, 2)")
        for key_id, count in ((MANY, MILLION), (FEW, THOUSAND)):
            name = b"%d" % key_id
            connection.execute(
                "INSERT INTO redis_keys VALUES (?, 0, ?, ?, NULL)", (key_id, name, type_name)
            )
            connection.execute(put_names_sql(1), (0, name, key_id))
            columns = ", ".join("?" * (1 + len(table.sub) + len(table.values)))
            connection.executemany(
                f"INSERT INTO {table.name} VALUES ({columns})",
                ((key_id, *row) for row in rows(type_name, count)),
            )
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()


class Place:
    """A server without sockets on such a file."""

    def __init__(self, path: Path, type_name: str) -> None:
        make_file(path, type_name)
        self.store = FileStore(path)
        self.engine = Engine(self.store, Config(), rng=random.Random(1))
        self.session = Session(self.engine, NoSink(), "test", "test")

    def run(self, text: str, key_id: int) -> Any:
        argv = [b"%d" % key_id if word == "KEY" else word.encode() for word in text.split()]
        command, stats = self.engine.commands.find(argv)
        reply = self.engine.invoker.answer(self.session, command, argv, stats)
        assert not isinstance(reply, CommandError), reply
        return reply

    def rows_written(self) -> int:
        """By committing and folding."""
        ops = self.store.keyspace.ops
        # Only bytes themselves can be journalled, not Counted ones (which runs do not have).
        ops[:] = [op if op[2] is None else row_op(op[0], op[1], bytes(op[2]), op[3]) for op in ops]
        before = self.store._connection.total_changes()
        self.store.commit()
        self.store.fold()
        return self.store._connection.total_changes() - before

    def compare(self, commands: list[str]) -> None:
        """Each has to do about the same on both keys; and no command may journal or fold more
        than it changes. A number after `#` says how many rows that is, if not none."""
        for command in commands:
            text, _, number = command.partition("#")
            changes = int(number or 0)
            work = {}
            for key_id, count in ((FEW, THOUSAND), (MANY, MILLION)):
                filled_in = text.replace("MIDDLE", name_of(count // 2).decode())
                filled_in = filled_in.replace("HALF", str(count // 2))
                with Work() as work[key_id]:
                    self.run(filled_in, key_id)
                told_rows = [row for op in self.store.keyspace.ops for row in rows_in(op)]
                assert len(told_rows) == changes, text
                # Beside those of the tables: the batch comes into the journal and leaves it, its
                # number is noted twice, and the size of the key is deleted and written again.
                assert self.rows_written() <= changes + 6, text
            few, many = work[FEW], work[MANY]
            told = (text, few.steps, many.steps, many.comparisons, many.nbytes)
            assert many.steps < few.steps + MORE_STEPS * max(1, changes), told
            assert many.comparisons < MOST_COMPARISONS, told
            assert many.nbytes < MOST_BYTES, told


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "million.db", request.param)
    yield place
    place.store.close()


@pytest.mark.parametrize("place", ["zset"], indirect=True)
def test_a_sorted_set(place: Place) -> None:
    for key_id, count in ((FEW, THOUSAND), (MANY, MILLION)):
        key = place.store.keyspace.databases[0].find(b"%d" % key_id)
        assert key is not None
        assert len(key.value) == count
        # The same members, but such that count. They are sorted here, once.
        key.value = value = ZSet(key.id)
        value.fill([(Counted(name), CountedFloat(score)) for name, score in rows("zset", count)])
        assert value.members(0, 1) == [name_of(0)]
        place.run("ZSCAN KEY 0", key_id)  # which makes an order of its own
    place.compare(
        [
            "ZSCORE KEY MIDDLE",
            "ZRANK KEY MIDDLE",
            "ZREVRANK KEY MIDDLE",
            "ZADD KEY 7.5 MIDDLE #1",
            "ZRANK KEY MIDDLE",  # and not counted all over again after the change
            "ZINCRBY KEY HALF MIDDLE #1",
            "ZADD KEY 1.5 new #1",
            "ZCOUNT KEY 10 HALF",
            "ZRANGEBYSCORE KEY HALF +inf LIMIT 0 10",
            "ZREVRANGEBYSCORE KEY HALF -inf LIMIT 0 10 WITHSCORES",
            "ZRANGE KEY HALF HALF",
            "ZREM KEY new #1",
            "ZPOPMIN KEY #1",
            "ZPOPMAX KEY #1",
            "ZPOPMIN KEY 10 #10",
            "ZRANGE KEY HALF HALF",
            "ZREMRANGEBYRANK KEY 100 109 #10",
            "ZRANDMEMBER KEY 5",
            "ZSCAN KEY 0",
        ]
    )


@pytest.mark.parametrize("place", ["hash"], indirect=True)
def test_a_hash(place: Place) -> None:
    for key_id, count in ((FEW, THOUSAND), (MANY, MILLION)):
        assert place.run("HLEN KEY", key_id) == count
        place.run("HSCAN KEY 0", key_id)  # their order is made at the first use
    place.compare(
        [
            "HGET KEY MIDDLE",
            "HMGET KEY MIDDLE new",
            "HSET KEY MIDDLE 7 #1",
            "HSET KEY new 7 #1",
            "HINCRBY KEY MIDDLE 2 #1",
            "HEXPIRE KEY 1000 FIELDS 1 MIDDLE #1",
            "HDEL KEY new #1",
            "HDEL KEY MIDDLE #1",
            "HRANDFIELD KEY 5",
            "HSCAN KEY 0",
            "HLEN KEY",
        ]
    )


@pytest.mark.parametrize("place", ["set"], indirect=True)
def test_a_set(place: Place) -> None:
    for key_id, count in ((FEW, THOUSAND), (MANY, MILLION)):
        assert place.run("SCARD KEY", key_id) == count
        place.run("SSCAN KEY 0", key_id)
    place.compare(
        [
            "SISMEMBER KEY MIDDLE",
            "SADD KEY new #1",
            "SREM KEY MIDDLE #1",
            "SPOP KEY #1",
            "SPOP KEY 3 #3",
            "SRANDMEMBER KEY 5",
            "SSCAN KEY 0",
            "SCARD KEY",
        ]
    )
