"""`holdfast backup`: a copy of a database file, also of one that is being served."""

from collections.abc import Callable
from pathlib import Path

from holdfast.store.file.copying import copy_to
from holdfast.store.file.opening import reading


def backup(source: Path, dest: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Copy `source` to `dest`, replacing what is there; raises StorageError.

    `dest` appears complete and on disk, or not at all. `progress` hears pages done and in all.
    """
    # The read transaction is held open all the time: without it every commit of the server would
    # start the copy anew.
    with reading(source) as connection:
        copy_to(connection, dest, progress)
