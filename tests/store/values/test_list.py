"""Lists: the effect of each command on elements and rows, and how little of a stored list it
loads."""

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import LIST_ITEMS, RowOp
from holdfast.store.change.runs import STEP, rows_in
from holdfast.store.values import list_ends
from holdfast.store.values.list import List
from holdfast.store.values.list_chunks import CHUNK, MOST_PACKED, Chunk, Packed
from holdfast.store.values.list_elements import ENDS, LOOSE
from tests.store.list_rows import KEY_ID, Table, roll_back

MILLION = 1_000_000


def a_list(*values: bytes) -> tuple[List, ChangeLog]:
    log = ChangeLog()
    subject = List(KEY_ID)
    subject.push_right(values, log)
    log.ops.clear()
    return subject, log


def rows(log: ChangeLog) -> list[RowOp]:
    return [row for op in log.ops for row in rows_in(op)]


@pytest.fixture
def log() -> ChangeLog:
    return ChangeLog()


@pytest.fixture(scope="module")
def table() -> Table:
    return Table.numbered(MILLION)


class TestPushingAndPopping:
    def test_rpush_appends_and_takes_rising_positions_from_zero(self, log: ChangeLog) -> None:
        subject = List(KEY_ID)
        subject.push_right([b"a", b"b"], log)
        assert list(subject) == [b"a", b"b"]
        assert rows(log) == [(LIST_ITEMS, KEY_ID, 0, b"a"), (LIST_ITEMS, KEY_ID, STEP, b"b")]

    def test_lpush_prepends_each_in_turn_and_takes_falling_positions(self, log: ChangeLog) -> None:
        subject = List(KEY_ID)
        subject.push_left([b"a", b"b"], log)
        assert list(subject) == [b"b", b"a"]
        assert rows(log) == [(LIST_ITEMS, KEY_ID, 0, b"a"), (LIST_ITEMS, KEY_ID, -STEP, b"b")]

    def test_pops_take_from_their_end_and_remove_the_row(self) -> None:
        subject, log = a_list(b"a", b"b", b"c")
        assert subject.pop_left_one(log) == b"a"
        assert subject.pop_right_one(log) == b"c"
        gone = [(LIST_ITEMS, KEY_ID, 0, None), (LIST_ITEMS, KEY_ID, 2 * STEP, None)]
        assert log.ops == gone

    def test_popping_more_than_there_is_empties_the_list(self) -> None:
        subject, log = a_list(b"a", b"b", b"c")
        assert subject.pop_right(9, log) == [b"c", b"b", b"a"]
        assert subject.pop_left(9, log) == []
        assert not subject

    def test_an_emptied_list_starts_at_position_zero_again(self) -> None:
        subject, log = a_list(b"a", b"b")
        subject.pop_left(2, log)
        subject.push_right([b"c"], log)
        assert list(subject.rows()) == [(0, b"c")]

    @pytest.mark.parametrize("direction", [-1, 1])
    def test_a_list_pushed_to_the_farthest_position_is_numbered_afresh(
        self, direction: int, log: ChangeLog
    ) -> None:
        far = direction * (list_ends.FARTHEST + STEP)
        table = Table([(far, b"x"), (far + STEP, b"x")])
        subject = table.open(log)
        (subject.push_right if direction > 0 else subject.push_left)([b"new"], log)
        assert all(abs(pos) <= 2 * STEP for pos, _ in subject.rows())
        for _, _, pos, value in log.ops:
            table.write(pos, value)
        assert list(table.open(log).rows()) == list(subject.rows())
        assert subject.index(-1 if direction > 0 else 0) == b"new"

    def test_pops_that_are_taken_back_leave_positions_implicit(self) -> None:
        subject, log = a_list(*[b"x"] * CHUNK)
        log.undo = []
        subject.pop_left(5, log)
        subject.pop_right(5, log)
        roll_back(log)
        (chunk,) = subject._nodes
        assert isinstance(chunk, Chunk)
        assert (chunk.first, chunk.count, chunk.explicit) == (0, CHUNK, None)

    def test_bytes_are_counted_in_the_value_and_in_the_log(self, log: ChangeLog) -> None:
        subject = List(KEY_ID)
        subject.push_right([b"12345", b"", b"67"], log)
        assert log.used_bytes == subject.nbytes > 7
        subject.set(0, b"1", log)
        assert log.used_bytes == subject.nbytes
        subject.pop_left(3, log)
        assert log.used_bytes == subject.nbytes == 0


class TestReading:
    @pytest.mark.parametrize(
        ("i", "expected"), [(0, b"a"), (2, b"c"), (-1, b"c"), (-3, b"a"), (3, None), (-4, None)]
    )
    def test_index_counts_from_the_end_when_negative(self, i: int, expected: bytes | None) -> None:
        assert a_list(b"a", b"b", b"c")[0].index(i) == expected

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [
            (0, -1, b"abc"), (1, 1, b"b"), (-2, -1, b"bc"), (-9, 9, b"abc"),
            (2, 1, b""), (3, 9, b""), (0, -9, b""),
        ],
    )  # fmt: skip
    def test_range_clamps_both_ends(self, start: int, stop: int, expected: bytes) -> None:
        subject, _ = a_list(b"a", b"b", b"c")
        assert b"".join(subject.range(start, stop)) == expected

    def test_a_range_may_cross_chunks(self) -> None:
        values = [b"%d" % i for i in range(3 * CHUNK)]
        subject, _ = a_list(*values)
        assert list(subject.range(CHUNK - 1, 2 * CHUNK)) == values[CHUNK - 1 : 2 * CHUNK + 1]

    @pytest.mark.parametrize(
        ("rank", "count", "maxlen", "expected"),
        [
            (1, 1, 0, [0]), (1, 0, 0, [0, 2, 3]), (2, 1, 0, [2]), (-1, 2, 0, [3, 2]),
            (-2, 0, 0, [2, 0]), (4, 0, 0, []), (1, 0, 3, [0, 2]), (-1, 0, 1, []), (-1, 0, 2, [3]),
        ],
    )  # fmt: skip
    def test_find_obeys_rank_count_and_maxlen(
        self, rank: int, count: int, maxlen: int, expected: list[int]
    ) -> None:
        subject, _ = a_list(b"x", b"y", b"x", b"x", b"z")
        assert subject.find(b"x", rank, count, maxlen) == expected


class TestChangingTheMiddle:
    def test_set_replaces_the_row_and_refuses_indexes_out_of_range(self) -> None:
        subject, log = a_list(b"a", b"b")
        assert subject.set(-1, b"B", log)
        assert log.ops == [(LIST_ITEMS, KEY_ID, STEP, b"B")]
        assert not subject.set(2, b"C", log)
        assert not subject.set(-3, b"C", log)

    def test_insert_takes_the_middle_of_the_gap(self) -> None:
        subject, log = a_list(b"a", b"c")
        assert subject.insert(b"c", b"b", True, log)
        assert list(subject) == [b"a", b"b", b"c"]
        assert log.ops == [(LIST_ITEMS, KEY_ID, STEP // 2, b"b")]

    def test_insert_at_an_end_is_a_push(self) -> None:
        subject, log = a_list(b"b")
        subject.insert(b"b", b"a", True, log)
        subject.insert(b"b", b"c", False, log)
        assert list(subject.rows()) == [(-STEP, b"a"), (0, b"b"), (STEP, b"c")]

    def test_insert_without_its_pivot_changes_nothing(self) -> None:
        subject, log = a_list(b"a")
        assert not subject.insert(b"z", b"b", True, log)
        assert (list(subject), log.ops) == ([b"a"], [])

    def test_an_exhausted_gap_makes_room_among_its_neighbours_only(self) -> None:
        subject, log = a_list(*[b"%d" % i for i in range(10 * CHUNK)])
        middle = b"%d" % (5 * CHUNK)
        for i in range(2000):
            assert subject.insert(middle, b"new %d" % i, True, log)
        subject.check()
        assert subject.range(5 * CHUNK, 5 * CHUNK + 1999) == tuple(
            b"new %d" % i for i in range(2000)
        )
        # 2,000 rows are new; the rows moved for them are a small multiple, not the list each time.
        assert len(log.ops) < 2000 * 30

    def test_pushes_return_to_the_grid_after_an_inserted_element_became_an_end(self) -> None:
        subject, log = a_list(b"a", b"c")
        subject.insert(b"c", b"b", True, log)
        subject.pop_right_one(log)
        subject.pop_left_one(log)
        subject.push_right([b"d"], log)
        subject.push_left([b"z"], log)
        assert list(subject.rows()) == [(0, b"z"), (STEP // 2, b"b"), (STEP, b"d")]

    @pytest.mark.parametrize(
        ("count", "expected", "removed"),
        [(0, b"yz", 3), (2, b"yxz", 2), (-2, b"xyz", 2), (-9, b"yz", 3)],
    )
    def test_remove_counts_from_the_head_or_the_tail(
        self, count: int, expected: bytes, removed: int
    ) -> None:
        subject, log = a_list(b"x", b"y", b"x", b"x", b"z")
        assert subject.remove(count, b"x", log) == removed
        assert b"".join(subject) == expected
        assert len(log.ops) == removed

    @pytest.mark.parametrize(
        ("start", "stop", "expected"),
        [(1, 2, b"bc"), (0, -2, b"abc"), (-2, -1, b"cd"), (2, 1, b""), (9, 10, b"")],
    )
    def test_trim_keeps_the_range(self, start: int, stop: int, expected: bytes) -> None:
        subject, log = a_list(b"a", b"b", b"c", b"d")
        subject.trim(start, stop, log)
        assert b"".join(subject) == expected
        assert len(rows(log)) == 4 - len(expected)


class TestWholeLists:
    def test_applying_an_operation_twice_is_applying_it_once(self) -> None:
        subject, _ = a_list(b"a", b"b")
        for _ in range(2):
            subject.apply(5, b"new")
            subject.apply(0, None)
            assert list(subject.rows()) == [(5, b"new"), (STEP, b"b")]
            subject.check()

    def test_a_copy_has_rows_of_its_own_and_leaves_the_source_alone(self, log: ChangeLog) -> None:
        source = Table.numbered(2 * CHUNK + 1).open(log)
        source.insert(b"1", b"between", True, log)
        expected = list(source)
        log.ops.clear()
        log.undo = []
        used_bytes = log.used_bytes
        twin = source.copy(8, log)
        twin.check()
        assert [(8, pos, value) for pos, value in twin.rows()] == [op[1:] for op in log.ops]
        assert (log.undo, log.used_bytes) == ([], used_bytes)
        twin.pop_left_one(log)
        assert (list(source), list(twin)) == (expected, expected[1:])

    def test_rows_that_vanished_from_the_file_are_an_error_not_a_shorter_list(
        self, log: ChangeLog
    ) -> None:
        table = Table.numbered(10)
        subject = table.open(log)
        table.write(5 * STEP, None)
        with pytest.raises(RuntimeError, match="rows"):
            subject.index(0)


class TestPacking:
    """Chunks away from both ends are packed, and a change makes objects of one of them."""

    VALUES = tuple(b"%d" % number for number in range(40 * CHUNK))

    @pytest.fixture(params=["right", "left", "run", "applied", "applied from the right", "copied"])
    def subject(self, request: pytest.FixtureRequest, log: ChangeLog) -> List:
        subject = List(KEY_ID)
        if request.param == "right":
            for value in self.VALUES:
                subject.push_right([value], log)
        elif request.param == "left":
            subject.push_left(self.VALUES[::-1], log)
        elif request.param == "applied":
            for place, value in enumerate(self.VALUES):
                subject.apply(place * STEP, value)
        elif request.param == "applied from the right":
            for place, value in enumerate(self.VALUES[::-1]):
                subject.apply(-place * STEP, value)
        else:
            subject.push_right(self.VALUES, log)
        if request.param == "copied":
            subject = subject.copy(KEY_ID, log)
        log.ops.clear()
        subject._settle(log)
        log.used_bytes = subject.nbytes
        return subject

    def test_a_long_list_has_objects_at_its_ends_only(self, subject: List) -> None:
        assert packed_nodes(subject) == list(range(ENDS, 40 - ENDS))
        assert tuple(subject) == self.VALUES
        subject.check()
        assert subject.nbytes < 15 * len(self.VALUES)

    def test_to_read_leaves_it_packed(self, subject: List) -> None:
        packed = packed_nodes(subject)
        middle = 20 * CHUNK + 7
        assert subject.index(middle) == self.VALUES[middle]
        assert subject.range(middle, middle + CHUNK) == self.VALUES[middle : middle + CHUNK + 1]
        assert subject.range(0, -1) == self.VALUES
        assert subject.find(self.VALUES[middle], 1, 1, 0) == [middle]
        assert subject.find(self.VALUES[middle], -1, 0, 0) == [middle]
        assert [value for _, value in subject.rows()] == list(self.VALUES)
        assert packed_nodes(subject) == packed

    def test_a_change_in_the_middle_is_seen_and_packed_later(
        self, subject: List, log: ChangeLog
    ) -> None:
        expected = list(self.VALUES)
        for number in range(ENDS, 40 - ENDS):
            assert subject.set(number * CHUNK, b"set", log)
            expected[number * CHUNK] = b"set"
            subject.check()
            assert subject.nbytes == log.used_bytes
        assert list(subject) == expected
        assert len(packed_nodes(subject)) == 40 - 2 * ENDS - LOOSE

    def test_insertions_and_removals_reach_packed_elements(
        self, subject: List, log: ChangeLog
    ) -> None:
        expected = list(self.VALUES)
        for number in range(5, 35):
            place = number * CHUNK + number
            assert subject.insert(self.VALUES[place], b"new", True, log)
            expected.insert(expected.index(self.VALUES[place]), b"new")
        assert list(subject) == expected
        assert subject.remove(0, b"new", log) == 30
        subject.check()
        assert subject.nbytes == log.used_bytes
        assert tuple(subject) == self.VALUES
        assert len(packed_nodes(subject)) >= 40 - 2 * ENDS - LOOSE

    def test_pops_reach_packed_elements(self, subject: List, log: ChangeLog) -> None:
        half = len(self.VALUES) // 2
        assert tuple(subject.pop_left(half, log)) == self.VALUES[:half]
        assert tuple(subject.pop_right(half, log)) == self.VALUES[: half - 1 : -1]
        assert (len(subject), subject.nbytes, log.used_bytes) == (0, 0, 0)

    def test_a_failed_script_is_undone_in_packed_chunks(
        self, subject: List, log: ChangeLog
    ) -> None:
        log.undo = []
        subject.pop_left(3 * CHUNK, log)
        subject.pop_right(3 * CHUNK, log)
        for number in range(ENDS, 30):
            subject.set(number * CHUNK, b"set", log)
        subject.push_right([b"more"] * 6 * CHUNK, log)
        subject.push_left([b"more"] * 6 * CHUNK, log)
        roll_back(log)
        subject.check()
        assert tuple(subject) == self.VALUES
        assert subject.nbytes == log.used_bytes

    def test_long_elements_are_not_packed(self, log: ChangeLog) -> None:
        subject = List(KEY_ID)
        for _ in range(8 * CHUNK):
            subject.push_right([bytes(MOST_PACKED // CHUNK + 1)], log)
        assert packed_nodes(subject) == []

    def test_a_stored_list_that_is_read_is_packed(self, log: ChangeLog) -> None:
        subject = Table.numbered(40 * CHUNK).open(log)
        assert subject.range(0, -1) == self.VALUES
        assert len(packed_nodes(subject)) >= 40 - 2 * ENDS - 1
        assert subject.nbytes == log.used_bytes < 20 * len(self.VALUES)
        subject.check()


def packed_nodes(subject: List) -> list[int]:
    return [number for number, node in enumerate(subject._nodes) if isinstance(node, Packed)]


class TestStoredLists:
    """A list of a million elements in the file, of which as little as possible is loaded."""

    @pytest.fixture
    def subject(self, table: Table, log: ChangeLog) -> List:
        table.rows_loaded = 0
        return table.open(log)

    def test_pushes_load_nothing(self, subject: List, table: Table, log: ChangeLog) -> None:
        subject.push_left([b"left"], log)
        subject.push_right([b"right"], log)
        assert len(subject) == MILLION + 2
        assert (subject.index(0), subject.index(-1)) == (b"left", b"right")
        assert table.rows_loaded == 0
        assert [op[2] for op in log.ops] == [-STEP, MILLION * STEP]

    def test_pops_load_one_chunk_at_their_end(
        self, subject: List, table: Table, log: ChangeLog
    ) -> None:
        assert subject.pop_left(3, log) == [b"0", b"1", b"2"]
        assert subject.pop_right(2, log) == [b"999999", b"999998"]
        assert table.rows_loaded <= 2 * CHUNK
        subject.check()

    def test_an_index_in_the_middle_loads_its_chunk(self, subject: List, table: Table) -> None:
        assert subject.index(MILLION // 2) == b"500000"
        assert subject.index(MILLION // 2 + 1) == b"500001"
        assert table.rows_loaded <= CHUNK

    def test_a_range_of_a_hundred_loads_two_chunks_at_most(
        self, subject: List, table: Table
    ) -> None:
        assert subject.range(700_000, 700_099) == tuple(b"%d" % i for i in range(700_000, 700_100))
        assert table.rows_loaded <= 2 * CHUNK

    def test_set_trim_and_near_pivots_load_what_they_touch(
        self, subject: List, table: Table, log: ChangeLog
    ) -> None:
        assert subject.set(-100, b"set", log)
        assert subject.insert(b"5", b"inserted", False, log)
        assert subject.remove(1, b"7", log) == 1
        assert subject.remove(-1, b"set", log) == 1
        assert subject.find(b"999998", -1, 1, 0) == [len(subject) - 2]
        subject.trim(1, -2, log)
        assert subject.range(0, 6) == (b"1", b"2", b"3", b"4", b"5", b"inserted", b"6")
        assert table.rows_loaded <= 3 * CHUNK
        subject.check()

    def test_loaded_bytes_are_told(self, subject: List, log: ChangeLog) -> None:
        subject.index(MILLION // 2)
        assert log.used_bytes == subject.nbytes > 0

    def test_a_list_with_as_many_gaps_as_insertions_is_not_taken_for_regular(
        self, log: ChangeLog
    ) -> None:
        count = 20 * CHUNK
        table = Table.numbered(count)
        table.write(STEP // 2, b"inserted")
        table.write((count - 2) * STEP, None)
        subject = table.open(log)
        assert subject.index(count // 2) == b"%d" % (count // 2 - 1)

    def test_irregular_lists_load_from_the_nearer_end(self, log: ChangeLog) -> None:
        table = Table.numbered(100 * CHUNK)
        table.write(50 * CHUNK * STEP + 1, b"inserted")
        subject = table.open(log)
        assert subject.index(-300) == b"%d" % (100 * CHUNK - 300)
        assert table.rows_loaded <= 2 * (CHUNK + 1)
        subject.apply(3 * STEP, b"three")
        assert subject.index(3) == b"three"
        assert table.rows_loaded <= 3 * (CHUNK + 1)
        subject.check()
