"""Names with the ids of their keys, in the order of names, for the table of names.

They are sorted in runs as they come, and joined at the end, a part at a time. The sorting is in C
if that is compiled (_sorted_names.c).
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

RUN: Final = 2000  # names, sorted together
SAMPLES: Final = 16  # of a run, from which one learns how all are distributed


def sort_names_in_python(names: list[bytes], ids: list[int]) -> None:
    """Sort both lists by the names; equal names stay in their order."""
    places = sorted(range(len(names)), key=names.__getitem__)
    names[:], ids[:] = [names[at] for at in places], [ids[at] for at in places]


try:
    from holdfast.store.fold._sorted_names import sort_names as sort_names_in_c
except ImportError:  # it is compiled where that is possible
    sort_names: Any = sort_names_in_python
else:
    sort_names = sort_names_in_c


class SortedNames:
    """A name may come more than once, with other ids."""

    __slots__ = ("_ids", "_names", "_runs")

    def __init__(self) -> None:
        self._names: list[bytes] = []
        self._ids: list[int] = []
        self._runs: list[tuple[list[bytes], list[int]]] = []

    def add(self, names: list[bytes], ids: list[int]) -> None:
        self._names += names
        self._ids += ids
        if len(self._names) >= RUN:
            self._end_run()

    def _end_run(self) -> None:
        sort_names(self._names, self._ids)
        self._runs.append((self._names, self._ids))
        self._names, self._ids = [], []

    def take(self) -> Iterator[tuple[list[bytes], list[int]]]:
        """All of them, in parts about as long as a run, which follow each other. What was taken is
        forgotten. Samples of all runs tell where to cut."""
        if self._names:
            self._end_run()
        runs = self._runs
        step = max(1, RUN // SAMPLES)
        samples = sorted(chain.from_iterable([names[::step] for names, _ in runs]))
        cuts: list[bytes | None] = [*samples[SAMPLES::SAMPLES], None]
        for cut in cuts:
            some: list[bytes] = []
            their_ids: list[int] = []
            for names, ids in runs:
                end = len(names) if cut is None else bisect_left(names, cut)
                some += names[:end]
                their_ids += ids[:end]
                del names[:end], ids[:end]
            if len(runs) > 1:
                sort_names(some, their_ids)
            yield some, their_ids
