"""Whether any objects of ours are left that only the cyclic garbage collector would find."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nothing_left_to_collect(*kinds: type) -> Iterator[None]:
    """Within this context no object of these types may become garbage. (Other garbage may come from
    the test itself.)"""
    while gc.collect():
        pass  # because finalizers may release more objects
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
