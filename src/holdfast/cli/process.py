"""The process that a command line runs in, and its end."""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Never

STDOUT, STDERR = 1, 2

is_ours = False  # `main` was called as the program, and not by a program that goes on after it


def leave(status: int) -> Never:
    """End at once. Python would free every key by itself, a second and a half for 600,000 of them.
    All files must be closed, and all that is to last must be on disk."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def open_standard_streams() -> None:
    """Output that was closed by the caller goes nowhere. Otherwise Python has None in its place,
    and the next file that is opened gets its number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(fd, True)
    os.close(fd)
    if sys.stdout is None:
        sys.stdout = os.fdopen(STDOUT, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(STDERR, "w", closefd=False)


@contextmanager
def ending_in_good_order() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit meanwhile, as SIGINT raises KeyboardInterrupt: work that
    is half done is then removed."""
    if not is_ours:
        yield
        return

    def end(number: int, frame: object) -> Never:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
