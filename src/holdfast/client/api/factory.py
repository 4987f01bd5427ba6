"""From a URL to a client."""

import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from holdfast.client.api.cache import Cache
from holdfast.client.api.client import Client
from holdfast.client.topology.cluster import Cluster
from holdfast.client.topology.sentinel import sentinel_dialer
from holdfast.client.topology.single import Single
from holdfast.client.transport.connection import Connection
from holdfast.client.transport.hooks import NO_HOOKS, GuardedHooks, Hooks
from holdfast.client.transport.link import Dial
from holdfast.client.transport.options import (
    CLUSTER_SCHEMES,
    LOCAL_SCHEMES,
    SENTINEL_SCHEMES,
    ClientOptions,
    Target,
)
from holdfast.clock import Clock, SystemClock


def make_client(
    target: Target,
    *,
    dial: Dial | None = None,
    hooks: Iterable[Hooks] = (),
    clock: Clock | None = None,
    rng: random.Random | None = None,
    on_close: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> Client:
    """A client that is not connected yet. `dial` reaches a server that has no address, such as one
    in this process."""
    clock = clock or SystemClock()
    hooks = tuple(hooks)
    guarded = GuardedHooks(hooks) if hooks else NO_HOOKS
    follows = target.scheme in SENTINEL_SCHEMES
    if follows:
        dial = sentinel_dialer(target, clock)

    options = target.options
    is_cluster = target.scheme in CLUSTER_SCHEMES
    cache = None
    if options.cache_keys:
        cache = Cache(options.cache_keys, options.cache_bytes, keeps_missing=not is_cluster)

    def single(options: ClientOptions) -> Single:
        caller = Single(
            options,
            dial=dial,
            clock=clock,
            rng=rng,
            hooks=guarded,
            on_close=on_close,
            is_watched=target.scheme not in LOCAL_SCHEMES,
            follows=follows,
        )
        if cache is not None:
            cache.attach(caller.connection)
        return caller

    def connection(options: ClientOptions, dial: Dial) -> Connection:
        return Connection(options, dial=dial, clock=clock, rng=rng, hooks=guarded)

    if is_cluster:
        return Client(Cluster(target, clock, single, connection), hooks=guarded, cache=cache)
    return Client(single(target.options), hooks=guarded, cache=cache)
