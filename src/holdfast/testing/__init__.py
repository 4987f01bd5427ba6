"""Real servers for the tests of other programs: the pytest fixtures, and the servers behind them.

Each pytest run in an environment with Holdfast imports `pytest_plugin`, so nothing here imports the
server or a client before a fixture needs it. Only `spawner`, which runs in a process of its own,
imports the server.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.testing.servers import DisposableServer, Servers

__all__ = ["DisposableServer", "Servers"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast.testing import servers  # not before it is needed: it imports subprocess

    return getattr(servers, name)
