"""Memory becomes large pages where it is full, one at a time, and nothing else changes."""

import errno
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.server.features import huge_pages
from holdfast.server.features.huge_pages import (
    ENOUGH_PAGES,
    HUGE_BYTES,
    PAGE_BYTES,
    PAGES,
    HugePages,
    Kernel,
    PageJoiner,
    break_s,
    regions,
)

MAPS = """\
55a0c0000000-55a0c0021000 r--p 00000000 fe:00 1234    /usr/bin/python3.11
55a0c1000000-55a0c1a00000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
7f0000500000-7f0000900000 ---p 00000000 00:00 0
7f0001000000-7f0001400000 rw-s 00000000 00:01 99     /dev/shm/x (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
"""


class FakeKernel(Kernel):
    def __init__(self, *sizes: int) -> None:
        """Regions of so many bytes each, with a gap after each."""
        self.starts = [number << 30 for number in range(1, len(sizes) + 1)]
        self.sizes = list(sizes)
        self.in_use: dict[int, int] = {}
        self.errors: dict[int, int] = {}
        self.asked: list[int] = []
        self.is_machine_busy = False

    def is_busy(self) -> bool:
        return self.is_machine_busy

    def maps(self) -> str:
        return "".join(
            f"{start:x}-{start + size:x} rw-p 00000000 00:00 0 \n"
            for start, size in zip(self.starts, self.sizes, strict=True)
        )

    def pages_in_use(self, address: int) -> int:
        return self.in_use.get(address, PAGES)

    def collapse(self, address: int) -> int:
        self.asked.append(address)
        return self.errors.get(address, 0)


def on() -> bool:
    return True


def test_only_memory_that_is_no_file_and_no_stack_is_looked_at() -> None:
    assert list(regions(MAPS)) == [
        (0x55A0C1000000, 0x55A0C1A00000),
        (0x7F0000000000, 0x7F0000400000),
    ]


def test_whole_pages_that_are_full_are_made_large_once() -> None:
    kernel = FakeKernel(3 * HUGE_BYTES + 4096, HUGE_BYTES - 4096)
    first = kernel.starts[0]
    kernel.in_use[first] = ENOUGH_PAGES - 1
    pages = HugePages(kernel)
    pages.join_all(on)
    assert kernel.asked == [first + HUGE_BYTES, first + 2 * HUGE_BYTES]
    kernel.in_use[first] = ENOUGH_PAGES
    pages.join_all(on)
    assert kernel.asked[2:] == [first]
    assert pages.count == 3


def test_pages_stay_small_while_the_machine_is_busy() -> None:
    """The kernel holds a lock while it waits for a turn on each processor."""
    kernel = FakeKernel(2 * HUGE_BYTES)
    kernel.is_machine_busy = True
    pages = HugePages(kernel)
    pages.join_all(on)
    assert kernel.asked == []
    kernel.is_machine_busy = False
    pages.join_all(on)
    assert len(kernel.asked) == 2


@pytest.mark.parametrize(
    ("pressure", "load", "is_busy"),
    [
        ("some avg10=97.97 avg60=1.00 avg300=1.00 total=5\nfull avg10=0.00 …\n", 0.1, True),
        ("some avg10=3.20 avg60=99.00 avg300=99.00 total=5\nfull avg10=0.00 …\n", 99.0, False),
        (None, 99.0, True),
        (None, 0.1, False),
    ],
)
def test_a_machine_is_busy_whose_programs_wait_for_processors(
    pressure: str | None,
    load: float,
    is_busy: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the pressure that the kernel tells; where it tells none, by the load."""
    path = tmp_path / "cpu"
    if pressure is not None:
        path.write_text(pressure)
    monkeypatch.setattr(huge_pages, "PRESSURE", path)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert Kernel.is_busy(FakeKernel()) == is_busy


def test_a_region_that_begins_between_two_pages_is_used_from_the_next() -> None:
    kernel = FakeKernel(2 * HUGE_BYTES)
    kernel.starts[0] += 4096
    HugePages(kernel).join_all(on)
    assert kernel.asked == [(1 << 30) + HUGE_BYTES]


@pytest.mark.parametrize("error", [errno.EAGAIN, errno.EBUSY, errno.ENOMEM])
def test_a_call_of_the_kernel_that_fails_is_tried_again_later(error: int) -> None:
    kernel = FakeKernel(HUGE_BYTES)
    kernel.errors[kernel.starts[0]] = error
    pages = HugePages(kernel)
    pages.join_all(on)
    kernel.errors.clear()
    pages.join_all(on)
    pages.join_all(on)
    assert len(kernel.asked) == 2
    assert pages.count == 1


def test_a_page_that_cannot_be_joined_is_not_tried_again() -> None:
    kernel = FakeKernel(2 * HUGE_BYTES)
    kernel.errors[kernel.starts[0] + HUGE_BYTES] = errno.EINVAL
    pages = HugePages(kernel)
    pages.join_all(on)
    pages.join_all(on)
    assert len(kernel.asked) == 2
    assert pages.is_possible


def test_a_kernel_that_does_not_know_how_is_asked_once() -> None:
    kernel = FakeKernel(4 * HUGE_BYTES)
    kernel.errors = dict.fromkeys(range(1 << 30, 2 << 30, HUGE_BYTES), errno.EINVAL)
    pages = HugePages(kernel)
    pages.join_all(on)
    assert len(kernel.asked) == 1
    assert not pages.is_possible
    PageJoiner(kernel=lambda: kernel, every_s=0).run()  # returns
    assert len(kernel.asked) == 2


def test_a_system_without_large_pages_ends_the_thread() -> None:
    def refuse() -> Kernel:
        raise OSError(errno.EPERM, "the system forbids it")

    PageJoiner(kernel=refuse, every_s=0).run()  # returns


def test_a_process_that_was_stopped_does_not_wait_for_hours() -> None:
    assert [break_s(took_s) for took_s in (0.0001, 0.004, 3600.0)] == [0.05, 0.2, 5.0]


def test_pages_that_trimming_has_broken_are_joined_again() -> None:
    kernel = FakeKernel(HUGE_BYTES)
    trims = iter([0, 0, 1, 1])  # the fifth look finds none: the thread ends with an error

    def next_trims() -> int:
        try:
            return next(trims)
        except StopIteration:
            raise OSError from None

    PageJoiner(next_trims, lambda: kernel, every_s=0).run()
    assert kernel.asked == kernel.starts * 2


def test_memory_that_was_given_back_may_come_again() -> None:
    kernel = FakeKernel(HUGE_BYTES)
    pages = HugePages(kernel)
    pages.join_all(on)
    kernel.sizes = [0]
    pages.join_all(on)
    kernel.sizes = [HUGE_BYTES]
    pages.join_all(on)
    assert kernel.asked == kernel.starts * 2


def test_joining_pages_stops_when_the_caller_says_so() -> None:
    kernel = FakeKernel(4 * HUGE_BYTES)
    HugePages(kernel).join_all(lambda: False)
    assert len(kernel.asked) == 1


class OwnMemory(Kernel):
    """The real one, of which nothing is shown but some of it, on a machine that is never busy."""

    def __init__(self, show: Callable[[int], bool]) -> None:
        super().__init__()
        self._show = show

    def maps(self) -> str:
        return "".join(
            line
            for line in super().maps().splitlines(keepends=True)
            if self._show(int(line.partition("-")[0], 16))
        )

    def is_busy(self) -> bool:
        return False


def test_pages_in_use_are_counted() -> None:
    try:
        import ctypes

        kernel = Kernel()
    except (OSError, ImportError) as error:
        pytest.skip(f"no huge pages here: {error}")
    memory = mmap.mmap(-1, 2 * HUGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    whole = -(-start // HUGE_BYTES) * HUGE_BYTES  # the one that lies in it
    assert kernel.pages_in_use(whole) == 0
    for page in range(100):
        memory[whole - start + page * PAGE_BYTES] = 1
    assert 100 <= kernel.pages_in_use(whole) <= PAGES  # the kernel may give more at once


def test_real_memory_keeps_what_it_has() -> None:
    def starts() -> set[int]:
        return {start for start, _ in regions(Kernel().maps())}

    try:
        before = starts()
    except (OSError, ImportError) as error:
        pytest.skip(f"no huge pages here: {error}")
    content = b"".join(b"%07d\n" % number for number in range(HUGE_BYTES * 2 // 8))
    memory = mmap.mmap(-1, len(content), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = content
    new = starts() - before
    pages = HugePages(OwnMemory(lambda start: start in new))
    pages.join_all(on)
    assert memory[:] == content
    memory.close()
