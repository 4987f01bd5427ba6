"""_score_index.c changes a chunk of entries in the same way as the functions of score_index.py."""

import random
import sys
from array import array
from typing import Any

import pytest

from holdfast.store.values import score_index

in_c: Any = pytest.importorskip("holdfast.store.values._score_index")

SCORES = [float("-inf"), -1.5, 0.0, 1.0, 1e300, float("inf")]
MEMBERS = [b"", b"\0", b"a", b"a\0", b"ab", b"b", b"\xff", b"long" * 100]


@pytest.mark.parametrize("seed", range(30))
def test_both_do_the_same(seed: int) -> None:
    rng = random.Random(seed)
    plain: tuple[array[float], list[bytes]] = array("d"), []
    ours: tuple[array[float], list[bytes]] = array("d"), []
    there: set[tuple[float, bytes]] = set()
    for _ in range(400):
        score, member = rng.choice(SCORES), rng.choice(MEMBERS) + b"%d" % rng.randrange(9)
        asked = rng.choice([member, None])
        assert in_c.find(*ours, score, asked) == score_index.find(*plain, score, asked)
        if (score, member) in there:
            kept = in_c.take(*ours, score, member)
            assert kept == score_index.take(*plain, score, member) == member
            there.remove((score, member))
        elif there and rng.random() < 0.3:
            place = rng.randrange(len(there))
            entry = in_c.pop(*ours, place)
            assert entry == score_index.pop(*plain, place)
            there.remove(entry)
        else:
            in_c.insert(*ours, score, member)
            score_index.insert(*plain, score, member)
            there.add((score, member))
        assert ours == plain
        assert sorted(there) == list(zip(*ours, strict=True))


def test_take_returns_the_stored_object_itself() -> None:
    kept, same = b"%d" % 12345, b"%d" % 12345
    scores, members = array("d", [1.0]), [kept]
    assert in_c.take(scores, members, 1.0, same) is kept
    assert in_c.take(array("d", [1.0]), [kept], 1, same) is kept  # a number is a number


def test_nothing_is_leaked_or_let_go_twice() -> None:
    member, score = b"%d" % 12345, 2.0**40
    before = sys.getrefcount(member), sys.getrefcount(score)
    scores, members = array("d"), list[bytes]()
    for _ in range(50):
        in_c.insert(scores, members, score, member)
        assert in_c.find(scores, members, score, member) == 0
        in_c.take(scores, members, score, member)
        in_c.insert(scores, members, score, member)
        in_c.pop(scores, members, 0)
    assert (sys.getrefcount(member), sys.getrefcount(score)) == before


def test_invalid_arguments_are_refused_and_change_nothing() -> None:
    scores, members = array("d", [1.0, 2.0]), [b"a", b"b"]
    wrong: list[tuple[Any, type[Exception], tuple[Any, ...]]] = [
        (in_c.find, TypeError, (scores, members, 1.0)),
        (in_c.find, TypeError, (scores, tuple(members), 1.0, b"a")),
        (in_c.find, TypeError, (scores, members, "1", b"a")),
        (in_c.find, TypeError, (scores, members, 1.0, "a")),
        (in_c.find, TypeError, ([1.0, 2.0], members, 1.0, b"a")),
        (in_c.find, TypeError, (array("d", [1.0]), ["a"], 1.0, b"a")),
        (in_c.find, ValueError, (array("q", [1, 2]), members, 1.0, b"a")),
        (in_c.insert, ValueError, (scores, members[:1], 1.0, b"a")),
        (in_c.insert, TypeError, (scores, members, 1.0, None)),
        (in_c.take, ValueError, (scores, members, 1.0, b"b")),
        (in_c.take, ValueError, (scores, members, 2.0, b"a")),
        (in_c.take, ValueError, (scores, members, 3.0, b"a")),
        (in_c.take, ValueError, (scores, members, 1.0, None)),
        (in_c.pop, TypeError, (scores, members)),
        (in_c.pop, TypeError, (scores, members, "0")),
        (in_c.pop, IndexError, (scores, members, 2)),
        (in_c.pop, IndexError, (scores, members, -1)),
    ]
    for function, error, args in wrong:
        with pytest.raises(error):
            function(*args)
    held = memoryview(scores)  # an exported array cannot grow or shrink
    for function, args in ((in_c.insert, (1.0, b"c")), (in_c.take, (1.0, b"a")), (in_c.pop, (0,))):
        with pytest.raises(BufferError):
            function(scores, members, *args)
    held.release()
    assert (scores, members) == (array("d", [1.0, 2.0]), [b"a", b"b"])
