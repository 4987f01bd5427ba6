"""HyperLogLog: an estimate of the number of different elements, in 12 KB.

The value is a string with the same bytes as in Redis: store/values/hll_sketch.py.
"""

import math
from functools import partial

from holdfast.commands.context import Context
from holdfast.commands.table import Keys, command, many, one
from holdfast.errors import WRONG_TYPE, CommandError
from holdfast.resp import OK, Reply, Simple
from holdfast.resp.c_strings import c_string
from holdfast.store.memory.events import STRING
from holdfast.store.memory.key import Key
from holdfast.store.values import hll_sketch
from holdfast.store.values.hll_sketch import Sketch

NOT_ONE = CommandError("WRONGTYPE Key is not a valid HyperLogLog string value.")
CORRUPT = CommandError("INVALIDOBJ Corrupted HLL object detected")
NOT_SPARSE = CommandError("ERR HLL encoding is not sparse")
NO_SUCH_KEY = CommandError("ERR The specified key does not exist")

SELF_TEST_STEPS = (1, 10, 100, 1000, 3000)  # elements; more would hold up other clients
SELF_TEST_ERROR = 4 * 1.04 / math.sqrt(hll_sketch.REGISTERS)  # four times the standard error

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
        changes = sketch.add_all(argv[2:])
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
    held = hll_sketch.merged(parts)
    if is_dense:
        sketch.fill(held)
    else:
        for index, holds in enumerate(held):
            if holds:
                sketch.raise_to(index, holds)
    sketch.forget_count()
    _store(c, name, key, bytes(sketch.data))
    c.db.signal(name, b"pfadd", STRING)
    return OK


# -- for tests --------------------------------------------------------------------------------


@hyperloglog("pfdebug", 3, "write denyoom admin", one("RW access", 2), since="2.8.9")
def pfdebug(c: Context, argv: list[bytes]) -> Reply:
    """Show the registers of a HyperLogLog, its runs or its form; or make it dense.

    PFDEBUG GETREG | DECODE | ENCODING | TODENSE key
    """
    name = argv[2]
    key = c.db.find(name)
    value = _checked(key)
    if key is None or value is None:
        raise NO_SUCH_KEY
    subcommand = argv[1].lower()
    is_sparse = value[4] == hll_sketch.SPARSE
    if subcommand == b"encoding":
        return Simple(b"sparse" if is_sparse else b"dense")
    if subcommand == b"decode":
        if not is_sparse:
            raise NOT_SPARSE
        return b" ".join(map(_shown_run, hll_sketch.runs(value)))
    if subcommand == b"todense":
        return int(_make_dense(c, key, value))
    if subcommand == b"getreg":
        held = _registers_of(value)
        _make_dense(c, key, value)
        return list(held)
    raise CommandError(b"ERR Unknown PFDEBUG subcommand '%s'" % c_string(argv[1]))


def _shown_run(run: tuple[int, int, bool]) -> bytes:
    holds, length, is_long = run
    return b"v:%d,%d" % (holds, length) if holds else b"%c:%d" % (b"zZ"[is_long], length)


def _make_dense(c: Context, key: Key, value: bytes) -> bool:
    sketch = Sketch(value, c.limits.hll_sparse_max_bytes)
    try:
        was_sparse = sketch.make_dense()
    except hll_sketch.CorruptError:
        raise CORRUPT from None
    if was_sparse:
        c.db.replace(key, bytes(sketch.data), value)
        c.db.signal(key.name, b"", 0)  # the string changed, but Redis sends no event
    return was_sparse


@hyperloglog("pfselftest", 1, "admin", since="2.8.9")
def pfselftest(c: Context, argv: list[bytes]) -> Reply:
    """Check that both forms keep the same registers and that estimates are near the truth.

    PFSELFTEST
    """
    sparse = Sketch(hll_sketch.EMPTY, hll_sketch.DENSE_BYTES)
    dense = Sketch(hll_sketch.EMPTY, 0)
    dense.make_dense()
    count = 0
    for step in SELF_TEST_STEPS:
        elements = [b"%d" % number for number in range(count, step)]
        count = step
        sparse.add_all(elements)
        dense.add_all(elements)
        held = hll_sketch.registers(bytes(dense.data))
        if hll_sketch.registers(bytes(sparse.data)) != held:
            raise CommandError(f"ERR TESTFAILED the two forms differ after {count} elements")
        error = abs(hll_sketch.estimate(held) - count) / count
        if error > SELF_TEST_ERROR:
            raise CommandError(f"ERR TESTFAILED {error:.3f} off after {count} elements")
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
