"""Holdfast: coordination you install with pip.

This is the composition root: `open` and `connect` join client and server, which must not import
each other.
"""

from typing import TYPE_CHECKING

from holdfast._version import __version__ as __version__
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
    from typing import Unpack

    from holdfast.builds import Build, BuildQueue, Worker
    from holdfast.client.api.client import Client
    from holdfast.client.transport.link import Factory
    from holdfast.client.transport.options import ConnectOptions
    from holdfast.embedded import LocalDatabase
    from holdfast.semaphore import (
        Acquisition,
        LeaseLostError,
        LimitMismatchError,
        Lock,
        Semaphore,
        SemaphoreStats,
        UnknownLimitError,
    )

__all__ = [
    "Acquisition",
    "Build",
    "BuildQueue",
    "CommandError",
    "ConfigError",
    "HoldfastError",
    "LeaseLostError",
    "LimitMismatchError",
    "Lock",
    "ProtocolError",
    "Semaphore",
    "SemaphoreStats",
    "StorageError",
    "StoreInUseError",
    "UnknownLimitError",
    "Worker",
    "connect",
]  # and `open`, by its full name: a star import must not hide the builtin

# Modules that are imported when one of their names is first used. A server needs none of them.
_LATER = {
    **dict.fromkeys(["Build", "BuildQueue", "Worker"], "holdfast.builds"),
    **dict.fromkeys(["Acquisition", "Lock", "Semaphore", "SemaphoreStats"], "holdfast.semaphore"),
    **dict.fromkeys(
        ["LeaseLostError", "LimitMismatchError", "UnknownLimitError"], "holdfast.semaphore"
    ),
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)


def open(path: "str | os.PathLike[str]", **options: str | int) -> "LocalDatabase":
    """Open a database file, or ":memory:", in this process: no server, no socket.

    `options` are configuration parameters with `_` for `-`, such as appendfsync="everysec".
    Raises StoreInUseError when another process has the file.
    """
    import os

    from holdfast.embedded import open_local  # not before it is needed: it imports everything

    return open_local(os.fspath(path), **options)


def connect(url: str = "redis://localhost:6379", **options: "Unpack[ConnectOptions]") -> "Client":
    """Make a client of a server, or of a database in this process. It is not connected yet.

    `redis://`, `rediss://`, `unix://`, `redis+sentinel://` and `redis+cluster://` reach a
    server; `holdfast:///path/app.db` and `memory://` run the engine in this process. Use the
    client with `async with`.
    """
    from holdfast.client.api.factory import make_client
    from holdfast.client.transport.options import LOCAL_SCHEMES, parse_url

    hooks = options.pop("hooks", ())
    target = parse_url(url, **options)
    if target.scheme not in LOCAL_SCHEMES:
        return make_client(target, hooks=hooks)

    from holdfast.client.transport.duplex import join
    from holdfast.server.net.wire_connection import accept

    database: LocalDatabase | None = None

    async def dial(factory: "Factory") -> object:
        nonlocal database
        if database is None:
            database = open(target.path if target.scheme == "holdfast" else ":memory:")
        database.check_open()
        return join(factory(), accept(database.engine))

    async def close() -> None:
        if database is not None:
            await database.close()

    return make_client(target, dial=dial, hooks=hooks, on_close=close)
