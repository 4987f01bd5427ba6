"""Memory in pages of 2 MB instead of 4 kB, where the kernel can.

For each access to memory, a processor looks up the place of the page. It remembers only few pages;
for the others it reads tables in memory, and in a virtual machine twice as many. With large pages
it remembers most of the memory: commands on many keys take a tenth less time. Python takes its
memory in pieces of 1 MB, which the kernel does not join by itself. So the kernel is asked to join
pages:

- only pages that are already in use, so that no memory is lost;
- one at a time, on a separate thread, because a thread that needs the page meanwhile waits some
  milliseconds;
- slowly: to join one means to copy 2 MB, and while memory grew, that took an eighth of a core;
- not on a busy machine: the kernel waits until it can run on each processor, and meanwhile holds a
  lock that all threads need to get or return memory. With twelve programs for each processor it
  held the lock for up to 1.8 s.
"""

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

log = logging.getLogger(__name__)

HUGE_BYTES = 2 << 20
PAGE_BYTES = 4096
PAGES = HUGE_BYTES // PAGE_BYTES
# A large page is made if this many small pages are in use: the others will soon be used, too.
ENOUGH_PAGES = PAGES * 15 // 16
MADV_COLLAPSE = 25  # since Linux 6.1

# Of the eight bytes of an entry of /proc/self/pagemap: the highest bit says that the page is there.
LAST_BYTE = slice(7, None, 8)
HIGHEST_BIT = bytes(byte >> 7 for byte in range(256))

LOOK_EVERY_S = 1.0
BREAK_S = 0.05  # the shortest wait after each page
BREAK = 50  # the wait is this many times as long as the page took
LONGEST_BREAK_S = 5.0  # a process that was stopped meanwhile, or a machine, would wait for hours

SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")
PRESSURE = Path("/proc/pressure/cpu")
BUSY_PERCENT = 50.0  # of the last ten seconds in which some thread waited for a processor
BUSY_LOAD = 2.0  # for each processor, where the kernel does not tell the pressure


def regions(maps: str) -> Iterator[tuple[int, int]]:
    """The regions in /proc/self/maps that belong to no file: first and last address."""
    for line in maps.splitlines():
        span, access, _, _, inode, *path = line.split()
        if access == "rw-p" and inode == "0" and path in ([], ["[heap]"]):
            start, end = span.split("-")
            yield int(start, 16), int(end, 16)


class Kernel:
    """The calls to the kernel. The constructor raises OSError where the kernel cannot join pages,
    ImportError where Python has no ctypes."""

    def __init__(self) -> None:
        import ctypes  # not all builds of Python have it

        size, choice = ((SETTINGS / name).read_text() for name in ("hpage_pmd_size", "enabled"))
        if int(size) != HUGE_BYTES or os.sysconf("SC_PAGE_SIZE") != PAGE_BYTES:
            raise OSError(errno.ENOTSUP, "pages have another size")
        if "[never]" in choice:
            raise OSError(errno.EPERM, "the system forbids it")
        self._madvise = ctypes.CDLL(None, use_errno=True).madvise
        self._madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        self._errno = ctypes.get_errno

    def is_busy(self) -> bool:
        """Whether programs on this machine often wait for a processor."""
        try:
            pressure = PRESSURE.read_text()
        except OSError:
            return os.getloadavg()[0] > BUSY_LOAD * (os.cpu_count() or 1)
        return float(pressure.partition("avg10=")[2].split()[0]) > BUSY_PERCENT

    def maps(self) -> str:
        return Path("/proc/self/maps").read_text(errors="replace")

    def pages_in_use(self, address: int) -> int:
        """How many of the small pages are in memory."""
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(address // PAGE_BYTES * 8)
            entries = pagemap.read(PAGES * 8)
        return entries[LAST_BYTE].translate(HIGHEST_BIT).count(1)

    def collapse(self, address: int) -> int:
        """Join small pages to a large one. Returns the number of an error, or 0."""
        if self._madvise(address, HUGE_BYTES, MADV_COLLAPSE) == 0:
            return 0
        return self._errno()


class HugePages:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._done: set[int] = set()  # addresses of pages that are large, or cannot become large
        self.count = 0
        self.is_possible = True

    def look_at_all_again(self) -> None:
        """Memory was given back: some large pages may be small ones again."""
        self._done.clear()

    def join_all(self, may_go_on: Callable[[], bool]) -> None:
        """Look through all memory and make all possible large pages."""
        places = {
            number * HUGE_BYTES
            for start, end in regions(self._kernel.maps())
            for number in range(-(-start // HUGE_BYTES), end // HUGE_BYTES)
        }
        self._done &= places  # memory that was given back may be used again
        for address in sorted(places - self._done):
            if self._kernel.pages_in_use(address) < ENOUGH_PAGES:
                continue
            if self._kernel.is_busy():
                return
            error = self._kernel.collapse(address)
            if error == errno.EINVAL and not self.count:
                self.is_possible = False  # this kernel cannot join pages
                return
            if error in (errno.EAGAIN, errno.EBUSY, errno.ENOMEM):
                return  # it is tried again later; most other pages would fail now, too
            self._done.add(address)
            self.count += not error
            if not may_go_on():
                return


def break_s(took_s: float) -> float:
    """How long to wait after a page."""
    return min(max(BREAK_S, BREAK * took_s), LONGEST_BREAK_S)


def _no_trims() -> int:
    return 0


class PageJoiner(threading.Thread):
    """A thread that looks through memory from time to time, until `stop`. It begins a moment after
    the start, because the import of ctypes takes two milliseconds. `trims` tells how often memory
    was given back: that breaks large pages."""

    def __init__(
        self,
        trims: Callable[[], int] = _no_trims,
        kernel: Callable[[], Kernel] = Kernel,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        super().__init__(name="holdfast-pages", daemon=True)
        self._trims = trims
        self._kernel = kernel
        self._every_s = every_s
        self._stopping = threading.Event()
        self._began_s = 0.0

    def run(self) -> None:
        pages: HugePages | None = None
        trims = 0
        try:
            while not self._stopping.wait(self._every_s):
                pages = pages or HugePages(self._kernel())
                if trims != (trims := self._trims()):
                    pages.look_at_all_again()
                self._began_s = time.monotonic()
                pages.join_all(self._take_a_break)
                if not pages.is_possible:
                    return
        except (ImportError, OSError, AttributeError, ValueError) as error:
            log.debug("no huge pages: %s", error)

    def _take_a_break(self) -> bool:
        """Wait. Returns whether to go on."""
        took_s = time.monotonic() - self._began_s
        is_stopping = self._stopping.wait(break_s(took_s))
        self._began_s = time.monotonic()
        return not is_stopping

    def stop(self) -> None:
        self._stopping.set()


def start(trims: Callable[[], int]) -> PageJoiner:
    joiner = PageJoiner(trims)
    joiner.start()
    return joiner
