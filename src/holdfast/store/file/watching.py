"""The progress of statements of SQLite that take long. They can be interrupted, too: Ctrl-C raises
KeyboardInterrupt in the handler, which ends the statement.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import apsw

from holdfast.progress import BYTES, Progress

# Of SQLite's virtual machine, between two reports: a few milliseconds.
STEPS = 20_000

PAGES_OF_TABLE = "SELECT pageno FROM dbstat WHERE name = ? AND aggregate = TRUE"  # their number


@contextmanager
def ticking(connection: apsw.Connection, report: Callable[[], None]) -> Iterator[None]:
    """Call `report` again and again while statements run."""

    def tick() -> bool:
        report()
        return False  # go on

    connection.set_progress_handler(tick, STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None)


@contextmanager
def watching(
    connection: apsw.Connection, work: str, progress: Progress, tables: Sequence[str] = ()
) -> Iterator[None]:
    """Report how much of these tables, or of the whole file, the statements inside have read.

    SQLite does not say how far a statement is. It counts the pages that it had to read.
    """
    page_size = int(connection.execute("PRAGMA page_size").get)
    pages = _pages(connection, tables)
    before = _pages_read(connection)

    def report() -> None:
        read = _pages_read(connection) - before
        read = min(read, pages) if pages else read
        progress(work, read * page_size, pages * page_size, BYTES)

    with ticking(connection, report):
        yield


def _pages(connection: apsw.Connection, tables: Sequence[str]) -> int:
    """0: unknown, because this SQLite has no statistics of tables."""
    if not tables:
        return int(connection.execute("PRAGMA page_count").get)
    try:
        return sum(connection.execute(PAGES_OF_TABLE, (table,)).get or 0 for table in tables)
    except apsw.SQLError:
        return 0


def _pages_read(connection: apsw.Connection) -> int:
    return connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
