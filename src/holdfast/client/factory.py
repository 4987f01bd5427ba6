"""From a URL to a client."""

import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from holdfast.client.cache import Cache
from holdfast.client.client import Client
from holdfast.client.hooks import NO_HOOKS, GuardedHooks, Hooks
from holdfast.client.link import Dial
from holdfast.client.options import Target
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
    single = Single(target.options, dial=dial, clock=clock, rng=rng, hooks=guarded)
    cache = Cache(target.options.cache_keys) if target.options.cache_keys else None
    if cache is not None:
        cache.attach(single.connection)
    return Client(single, hooks=guarded, cache=cache, on_close=on_close)
