"""Functions that return when a file or directory is on disk."""

import os
from pathlib import Path


def sync_path(path: Path) -> None:
    """A new or renamed file lasts once its directory was synced, too. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
