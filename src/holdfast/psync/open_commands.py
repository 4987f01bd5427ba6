"""How much of a stream may be kept because its end has not come: the end of a command, or the EXEC
of a transaction, which runs as a whole.

A primary that never sends this end would fill the memory of its replica. The limit is what a server
takes from a client, by default, before the end of a transaction (`client-query-buffer-limit`). Only
scripts can write more at once. A snapshot has their changes, too, and is loaded in little memory.
(Not compiled, so that tests can lower the limit.)
"""

from holdfast.psync.events import TooLargeError

MOST_OPEN_BYTES = 1 << 30
ARGUMENT_BYTES = 64  # approximate memory of an argument beside its text


def check_open(nbytes: int, arguments: int, what: str) -> None:
    """Raise TooLargeError if so much may not be kept."""
    if nbytes + ARGUMENT_BYTES * arguments > MOST_OPEN_BYTES:
        raise TooLargeError(f"{what} takes more than {MOST_OPEN_BYTES:,} bytes of memory")
