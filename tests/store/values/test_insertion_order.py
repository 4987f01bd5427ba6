"""Large hashes and sets: costs that must not depend on the number of elements."""

import random

import pytest

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.values.hash import Hash
from holdfast.store.values.insertion_order import Places
from holdfast.store.values.set import Set
from tests.store.list_rows import KEY_ID, roll_back

COUNT = 50_000


class CountingRandom(random.Random):
    asked = 0

    def random(self) -> float:
        self.asked += 1
        return super().random()


def large_set() -> Set:
    value, log = Set(KEY_ID), ChangeLog()
    for number in range(COUNT):
        value.add(b"%d" % number, log)
    return value


def test_a_choice_takes_few_tries_however_many_were_removed() -> None:
    value, log, rng = large_set(), ChangeLog(), CountingRandom(1)
    popped = []
    while len(value):
        popped.append(value.pick(rng))
        value.remove(popped[-1], log)
    assert len(set(popped)) == COUNT
    assert rng.asked < 3 * COUNT


def test_choices_are_fair() -> None:
    value, log, rng = Set(KEY_ID), ChangeLog(), random.Random(1)
    for number in range(100):
        value.add(b"%d" % number, log)
    for number in range(0, 100, 2):
        value.remove(b"%d" % number, log)
    counts = dict.fromkeys(value.names, 0)
    for _ in range(50 * 1000):
        counts[value.pick(rng)] += 1
    assert all(800 < count < 1200 for count in counts.values())


def test_the_index_is_kept_not_made_again() -> None:
    value, log = large_set(), ChangeLog()
    value.scan(0, 1)
    index = value._places
    assert isinstance(index, Places)
    value.add(b"new", log)
    value.remove(b"7", log)
    cursor, names = value.scan(6, 3)
    assert (cursor, names) == (9, [b"6", b"8"])
    assert value._places is index


def test_an_element_of_an_undone_removal_has_its_place_again() -> None:
    value, log = large_set(), ChangeLog()
    index = value._places
    log.undo = []
    for number in range(0, 5000, 2):
        value.remove(b"%d" % number, log)
    value.add(b"new", log)
    roll_back(log)
    assert value._places is index
    assert value.scan(0, 3) == (3, [b"0", b"1", b"2"])
    assert list(value) == [b"%d" % number for number in range(COUNT)]


def test_a_scan_meets_the_members_that_stay_though_nearly_all_go() -> None:
    value, log, rng = large_set(), ChangeLog(), random.Random(1)
    stay = {b"%d" % number for number in range(0, COUNT, 1000)}
    going = [name for name in value.names if name not in stay]
    rng.shuffle(going)
    cursor, seen = value.scan(0, 100)
    while cursor:
        for _ in range(300):
            if going:
                value.remove(going.pop(), log)
        cursor, names = value.scan(cursor, 100)
        seen += names
    assert stay <= set(seen)


def test_a_field_refreshed_for_ever_leaves_few_deadlines() -> None:
    value, log = Hash(KEY_ID), ChangeLog()
    value.set(b"f", b"v", log)
    for at_ms in range(1000):
        value.set_expiry(b"f", at_ms, log)
    assert len(value._deadlines) < 100
    assert value.next_expiry_ms == 999


@pytest.mark.parametrize("highest", [COUNT, 100 * COUNT], ids=["few have gone", "most have gone"])
def test_elements_that_were_loaded_are_in_the_order_in_which_they_came(highest: int) -> None:
    ordinals = random.Random(1).sample(range(1, highest + 1), COUNT)
    rows = [(b"%d" % number, ordinal) for number, ordinal in enumerate(ordinals)]
    members, fields, log = Set(KEY_ID), Hash(KEY_ID), ChangeLog()
    members.fill(sorted(rows))
    fields.fill([(name, b"value", ordinal, None) for name, ordinal in sorted(rows)])
    expected = [name for name, ordinal in sorted(rows, key=lambda row: row[1])]
    members.add(b"new", log)
    fields.set(b"new", b"value", log)
    assert list(members) == list(fields) == [*expected, b"new"]
    assert members.scan(0, 3) == fields.scan(0, 3) == (sorted(ordinals)[2], expected[:3])


def test_elements_with_the_same_ordinal_are_all_there() -> None:
    """Not of our doing, but nothing may be lost by it."""
    members = Set(KEY_ID)
    members.fill([(b"a", 2), (b"b", 1), (b"c", 2)])
    assert list(members) == [b"b", b"a", b"c"]
