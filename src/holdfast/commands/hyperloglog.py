"""HyperLogLog: an estimate of the number of different elements, in 12 KB.

The value is a string with the same bytes as in Redis: store/values/hll_sketch.py.
"""

from functools import partial

from holdfast.commands.context import Context
from holdfast.commands.table import Keys, command, many, one
from holdfast.errors import WRONG_TYPE, CommandError
from holdfast.resp import OK, Reply
from holdfast.store.memory.events import STRING
from holdfast.store.memory.key import Key
from holdfast.store.values import hll_sketch
from holdfast.store.values.hll_sketch import Sketch

NOT_ONE = CommandError("WRONGTYPE Key is not a valid HyperLogLog string value.")
CORRUPT = CommandError("INVALIDOBJ Corrupted HLL object detected")

hyperloglog = partial(command, group="hyperloglog", categories="hyperloglog")


@hyperloglog("pfadd", -2, "write denyoom fast", one("RW insert"), since="2.8.9")
def pfadd(c: Context, argv: list[bytes]) -> Reply:
    """Count elements; return 1 if that changed the registers, else 0.

    PFADD key [element [element ...]]
    """
    name = argv[1]
    key = c.db.find(name)
    value = _checked(key) or hll_sketch.EMPTY
    sketch = Sketch(value, c.limits.hll_sparse_max_bytes)
    try:
        changes = sum([sketch.add(element) for element in argv[2:]])
    except hll_sketch.CorruptError:
        raise CORRUPT from None
    if key is not None and not changes:
        return 0
    sketch.forget_count()
    _store(c, name, key, bytes(sketch.data))
    c.db.signal(name, b"pfadd", STRING)
    return 1


@hyperloglog(
    "pfcount",
    -2,
    "readonly may_replicate",
    Keys(
        "RW access",
        last=-1,
        notes="RW because it may change the internal representation of the key,"
        " and propagate to replicas",
    ),
    since="2.8.9",
)
def pfcount(c: Context, argv: list[bytes]) -> Reply:
    """An estimate of how many different elements one key, or several together, have counted.

    PFCOUNT key [key ...]
    """
    if len(argv) > 2:
        return hll_sketch.estimate(hll_sketch.merged(_registers(c, argv[1:])[1]))
    key = c.db.read(argv[1])
    value = _checked(key)
    if key is None or value is None:
        return 0
    count = hll_sketch.cached_count(value)
    if count is None:
        count = hll_sketch.estimate(_registers_of(value))
        c.db.replace(key, hll_sketch.with_count(value, count), value)
        c.db.signal(argv[1], b"", 0)  # the string changed, but Redis sends no event
    return count


@hyperloglog(
    "pfmerge",
    -2,
    "write denyoom",
    one("RW access insert"),
    many("RO access", 2),
    since="2.8.9",
)
def pfmerge(c: Context, argv: list[bytes]) -> Reply:
    """Add to a key all elements that the other keys have counted.

    PFMERGE destkey [sourcekey [sourcekey ...]]
    """
    name = argv[1]
    is_dense, parts = _registers(c, argv[1:])
    key = c.db.find(name)
    sketch = Sketch(_checked(key) or hll_sketch.EMPTY, c.limits.hll_sparse_max_bytes)
    if is_dense:
        sketch.make_dense()
    for index, holds in enumerate(hll_sketch.merged(parts)):
        if holds:
            sketch.raise_to(index, holds)
    sketch.forget_count()
    _store(c, name, key, bytes(sketch.data))
    c.db.signal(name, b"pfadd", STRING)
    return OK


# -- parts ------------------------------------------------------------------------------------


def _checked(key: Key | None) -> bytes | None:
    """The value of the key, which must be a HyperLogLog. None if there is no key."""
    if key is None:
        return None
    value = key.value
    if type(value) is not bytes:
        raise WRONG_TYPE
    if not hll_sketch.is_valid(value):
        raise NOT_ONE
    return value


def _registers(c: Context, names: list[bytes]) -> tuple[bool, list[bytes]]:
    """The registers of all keys that exist, and whether one of them is dense."""
    parts = []
    is_dense = False
    for name in names:
        value = _checked(c.db.read(name))
        if value is not None:
            is_dense |= value[4] == hll_sketch.DENSE
            parts.append(_registers_of(value))
    return is_dense, parts


def _registers_of(value: bytes) -> bytes:
    try:
        return hll_sketch.registers(value)
    except hll_sketch.CorruptError:
        raise CORRUPT from None


def _store(c: Context, name: bytes, key: Key | None, value: bytes) -> None:
    if key is None:
        c.db.create(name, value)
    else:
        assert type(key.value) is bytes
        c.db.replace(key, value, key.value)
