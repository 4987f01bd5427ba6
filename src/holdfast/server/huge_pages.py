"""Memory in pages of 2 MB instead of 4 kB, where the kernel can.

Of keys chosen at random the processor has to look up, too, where their pages are, again in memory,
and in a virtual machine twice over. With large pages it knows: a tenth less time for whatever
touches many keys. Python takes its memory in pieces of 1 MB, of which the kernel makes none by
itself, so it is asked to: only for what is filled already, so that no memory is lost, and one at a
time on a thread of its own, because whoever needs the page meanwhile waits some milliseconds. And
not in haste: making one is to copy 2 MB, and while memory grew that took an eighth of a core.
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
ENOUGH_PAGES = PAGES * 15 // 16  # so many must be in use: the others will be, too
MADV_COLLAPSE = 25  # since Linux 6.1

# Of the eight bytes of an entry of /proc/self/pagemap: the highest bit says that the page is there.
LAST_BYTE = slice(7, None, 8)
HIGHEST_BIT = bytes(byte >> 7 for byte in range(256))

LOOK_EVERY_S = 1.0
BREAK_S = 0.05  # after each page, at least,
BREAK = 50  # and so many times as long as it took to find and make

SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")


def regions(maps: str) -> Iterator[tuple[int, int]]:
    """Of /proc/self/maps, where memory is that no file has: first and last address."""
    for line in maps.splitlines():
        span, access, _, _, inode, *path = line.split()
        if access == "rw-p" and inode == "0" and path in ([], ["[heap]"]):
            start, end = span.split("-")
            yield int(start, 16), int(end, 16)


class Kernel:
    """What it is asked for. Raises OSError where it has nothing of the kind, ImportError where
    Python does not reach it."""

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

    def maps(self) -> str:
        return Path("/proc/self/maps").read_text(errors="replace")

    def pages_in_use(self, address: int) -> int:
        """How many of the small pages there are."""
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(address // PAGE_BYTES * 8)
            entries = pagemap.read(PAGES * 8)
        return entries[LAST_BYTE].translate(HIGHEST_BIT).count(1)

    def collapse(self, address: int) -> int:
        """Make one of them; the number of an error, or 0."""
        if self._madvise(address, HUGE_BYTES, MADV_COLLAPSE) == 0:
            return 0
        return self._errno()


class HugePages:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._done: set[int] = set()  # addresses of those that are large, or cannot be
        self.count = 0
        self.is_possible = True

    def run(self, may_go_on: Callable[[], bool]) -> None:
        """Look through all memory, making large pages until there is none to make."""
        places = {
            number * HUGE_BYTES
            for start, end in regions(self._kernel.maps())
            for number in range(-(-start // HUGE_BYTES), end // HUGE_BYTES)
        }
        self._done &= places  # what was given back may come again
        for address in sorted(places - self._done):
            if self._kernel.pages_in_use(address) < ENOUGH_PAGES:
                continue
            error = self._kernel.collapse(address)
            if error == errno.EINVAL and not self.count:
                self.is_possible = False  # this kernel does not know how to
                return
            if error in (errno.EAGAIN, errno.EBUSY, errno.ENOMEM):
                return  # another time; the others would hardly fare better now
            self._done.add(address)
            self.count += not error
            if not may_go_on():
                return


class Maker(threading.Thread):
    """Does so from time to time, until it is told to stop."""

    def __init__(self, pages: HugePages) -> None:
        super().__init__(name="holdfast-pages", daemon=True)
        self._pages = pages
        self._stopping = threading.Event()
        self._began_s = 0.0

    def run(self) -> None:
        try:
            while self._pages.is_possible and not self._stopping.wait(LOOK_EVERY_S):
                self._began_s = time.monotonic()
                self._pages.run(self._take_a_break)
        except OSError as error:
            log.debug("no huge pages: %s", error)

    def _take_a_break(self) -> bool:
        """Whether to go on after it."""
        took_s = time.monotonic() - self._began_s
        is_stopping = self._stopping.wait(max(BREAK_S, BREAK * took_s))
        self._began_s = time.monotonic()
        return not is_stopping

    def stop(self) -> None:
        self._stopping.set()


def start() -> Maker | None:
    """None where it is not possible."""
    try:
        maker = Maker(HugePages(Kernel()))
    except (ImportError, OSError, AttributeError, ValueError) as error:
        log.debug("no huge pages: %s", error)
        return None
    maker.start()
    return maker
