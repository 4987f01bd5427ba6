"""From a URL to a client."""

import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from holdfast.client.cache import Cache
from holdfast.client.client import Client
from holdfast.client.cluster import Cluster
from holdfast.client.hooks import NO_HOOKS, GuardedHooks, Hooks
from holdfast.client.link import Dial
from holdfast.client.options import Options, Target
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
    if target.scheme == "redis+sentinel":
        dial = sentinel_dialer(target, clock)

    def single(options: Options) -> Single:
        return Single(options, dial=dial, clock=clock, rng=rng, hooks=guarded)

    if target.scheme == "redis+cluster":
        if target.options.cache_keys:
            raise ValueError("client-side caching works with one server, not with a cluster")
        return Client(Cluster(target, clock, single), hooks=guarded)
    caller = single(target.options)
    cache = Cache(target.options.cache_keys) if target.options.cache_keys else None
    if cache is not None:
        cache.attach(caller.connection)
    return Client(caller, hooks=guarded, cache=cache, on_close=on_close)
