"""From a URL to a client."""

import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from holdfast.client.cache import Cache
from holdfast.client.client import Client
from holdfast.client.cluster import Cluster
from holdfast.client.connection import Connection
from holdfast.client.hooks import NO_HOOKS, GuardedHooks, Hooks
from holdfast.client.link import Dial
from holdfast.client.options import (
    CLUSTER_SCHEMES,
    LOCAL_SCHEMES,
    SENTINEL_SCHEMES,
    Options,
    Target,
)
from holdfast.client.sentinel import sentinel_dialer
from holdfast.client.single import Single
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
    """A client that is not connected yet. `dial` reaches a server that no address names."""
    clock = clock or SystemClock()
    hooks = tuple(hooks)
    guarded = GuardedHooks(hooks) if hooks else NO_HOOKS
    follows = target.scheme in SENTINEL_SCHEMES
    if follows:
        dial = sentinel_dialer(target, clock)

    options = target.options
    cache = Cache(options.cache_keys, options.cache_bytes) if options.cache_keys else None

    def single(options: Options) -> Single:
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

    def connection(options: Options, dial: Dial) -> Connection:
        return Connection(options, dial=dial, clock=clock, rng=rng, hooks=guarded)

    if target.scheme in CLUSTER_SCHEMES:
        return Client(Cluster(target, clock, single, connection), hooks=guarded, cache=cache)
    return Client(single(target.options), hooks=guarded, cache=cache)
