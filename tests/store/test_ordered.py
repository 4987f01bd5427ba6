"""Hashes and sets that are large: what must not depend on how many elements there are."""

import random

from holdfast.store.hashes import Hash
from holdfast.store.ops import ChangeLog
from holdfast.store.ordered import Places
from holdfast.store.sets import Set
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


def test_what_is_taken_back_has_its_place_again() -> None:
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


def test_a_scan_meets_whoever_stays_though_nearly_all_go() -> None:
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
