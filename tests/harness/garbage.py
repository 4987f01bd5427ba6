"""Whether anything of ours is left that only the collector of circles would find."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nothing_left_to_collect(*kinds: type) -> Iterator[None]:
    """The garbage of these types. (Other garbage may come from the test itself.)"""
    while gc.collect():
        pass  # finalizers let go of more
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = Counter(type(each).__qualname__ for each in gc.garbage if isinstance(each, kinds))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not found
