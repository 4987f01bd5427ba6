"""Replaces a file as a whole or not at all, for CONFIG REWRITE and ACL SAVE. Not for the
database."""

import os
from collections.abc import Callable
from pathlib import Path


def replace_file(
    path: Path, content: bytes, *, new_mode: int, check: Callable[[Path], None] | None = None
) -> None:
    """Replace a file. The old file stays until the new one is on disk, and the new one gets its
    mode. `check` is called with the new file, and raises an error if it is not valid. Raises
    OSError."""
    import tempfile  # with its compressors, this import takes a tenth of the start

    path = Path(os.path.realpath(path))
    mode = path.stat().st_mode & 0o777 if path.exists() else new_mode
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        if check is not None:
            check(Path(temporary))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
