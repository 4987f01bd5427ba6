"""`backend_of(client)`: the backend on top of any client that Holdfast knows.

These are our client and the asyncio clients of redis-py and valkey-py: Redis, RedisCluster, and the
result of `Sentinel.master_for`. A library is imported only when a client of it is given.
"""

from holdfast.client.api.client import Client
from holdfast.coordination.backend import Backend
from holdfast.coordination.backend_foreign import ForeignBackend
from holdfast.coordination.backend_own import OwnBackend


def backend_of(client: object) -> Backend:
    """The backend on top of a client. TypeError: it is no known client, or a blocking one."""
    if isinstance(client, Client):
        return OwnBackend(client)
    for kind in type(client).__mro__:
        library, _, rest = kind.__module__.partition(".")
        if library in ("redis", "valkey"):
            if rest.split(".")[0] != "asyncio":
                raise TypeError(f"{library}'s blocking client: take the one in {library}.asyncio")
            if kind.__name__ == "Sentinel":
                raise TypeError("a sentinel has no data: take the client that master_for() returns")
            return ForeignBackend(client, library)
    raise TypeError(f"no client of ours, of redis-py or of valkey-py: {client!r}")
