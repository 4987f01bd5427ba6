"""The process of a command line, and its end."""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Never

STDOUT, STDERR = 1, 2

# whether `main` runs as the program, and not within a program that continues after it
is_ours = False


def leave(status: int) -> Never:
    """End at once. Python would free each key by itself, which takes a second and a half for
    600,000 keys. All files must be closed, and all data that has to last must be on disk."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def open_standard_streams() -> None:
    """Open the standard output and error that the caller has closed, as /dev/null. Otherwise Python
    has None for them, and the next opened file gets their number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(fd, True)
    os.close(fd)
    if sys.stdout is None:
        sys.stdout = os.fdopen(STDOUT, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(STDERR, "w", closefd=False)


@contextmanager
def ending_in_good_order() -> Iterator[None]:
    """Within this context, SIGTERM and SIGHUP raise SystemExit, as SIGINT raises KeyboardInterrupt,
    so that the results of unfinished work are removed."""
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
