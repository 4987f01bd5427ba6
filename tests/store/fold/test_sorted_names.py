"""Names come in any order, and are taken in their own."""

import random
from typing import Any

import pytest

from holdfast.store.fold.sorted_names import RUN, SortedNames, sort_names_in_python


def some_names(rng: random.Random, count: int) -> list[bytes]:
    beginning = rng.choice([b"", b"key:", b"\xff\0", b"long beginning:" * 5])
    names = [
        beginning + rng.choice([b"%012d" % rng.randrange(10**9), rng.randbytes(rng.randrange(4))])
        for _ in range(count)
    ]
    return names + rng.choices(names, k=count // 10)  # a name may come twice


@pytest.mark.parametrize("seed", range(30))
def test_both_sort_alike(seed: int) -> None:
    in_c: Any = pytest.importorskip("holdfast.store.fold._sorted_names")
    rng = random.Random(seed)
    names = some_names(rng, rng.choice([0, 1, 2, 50, 3000]))
    if rng.random() < 0.3:
        names += [b"", b"\0", b"\0" * 8, b"\0" * 9]
    ids = list(range(len(names)))
    expected_names, expected_ids = list(names), list(ids)
    sort_names_in_python(expected_names, expected_ids)
    in_c.sort_names(names, ids)
    assert (names, ids) == (expected_names, expected_ids)
    assert names == sorted(names)


def test_invalid_arguments_are_refused_and_change_nothing() -> None:
    in_c: Any = pytest.importorskip("holdfast.store.fold._sorted_names")
    names: list[Any] = [b"b", b"a", "c"]
    for arguments in [(), (names,), (names, [1, 2]), (names, [1, 2, 3]), (names, (1, 2, 3))]:
        with pytest.raises(TypeError):
            in_c.sort_names(*arguments)
    assert names == [b"b", b"a", "c"]


@pytest.mark.parametrize("count", [0, 1, RUN - 1, RUN, 5 * RUN + 7])
def test_all_are_taken_in_order_in_parts(count: int) -> None:
    rng = random.Random(count)
    names = some_names(rng, count)
    noted = SortedNames()
    for start in range(0, len(names), 300):
        some = names[start : start + 300]
        noted.add(some, list(range(start, start + len(some))))
    taken = list(noted.take())
    assert [name for part, _ in taken for name in part] == sorted(names)
    assert all(names[at] == name for part, ids in taken for name, at in zip(part, ids, strict=True))
    assert len({at for _, ids in taken for at in ids}) == len(names)
    assert max([len(part) for part, _ in taken], default=0) < 3 * RUN
    assert [part for part, _ in noted.take() if part] == []
