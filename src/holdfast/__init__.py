"""Holdfast: coordination you install with pip.

This is the composition root: `open` joins what must not import each other.
"""

from typing import TYPE_CHECKING

from holdfast.errors import (
    CommandError,
    ConfigError,
    HoldfastError,
    ProtocolError,
    StorageError,
    StoreInUseError,
)

if TYPE_CHECKING:
    import os

    from holdfast.server.local import LocalDatabase

__version__ = "0.1.0"

__all__ = [
    "CommandError",
    "ConfigError",
    "HoldfastError",
    "ProtocolError",
    "StorageError",
    "StoreInUseError",
    "open",
]


def open(path: "str | os.PathLike[str]", **options: str) -> "LocalDatabase":
    """Open a database file, or ":memory:", in this process: no server, no socket.

    `options` are configuration parameters with `_` for `-`, such as appendfsync="everysec".
    Raises StoreInUseError when another process has the file.
    """
    import os

    from holdfast.server.local import open_local  # not before it is needed: it imports everything

    return open_local(os.fspath(path), **options)
