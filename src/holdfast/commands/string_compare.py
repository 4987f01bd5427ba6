"""Commands that remove a string only if it has a certain value, and digests of long values."""

from functools import partial

from holdfast.commands.context import Context
from holdfast.commands.string_args import COMPARISONS, is_met
from holdfast.commands.table import command, one
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.store.memory.events import GENERIC
from holdfast.store.memory.key import Key
from holdfast.xxh3 import hex_digest

NOT_A_STRING = CommandError("ERR Key should be of string type if conditions are specified")
BAD_CONDITION = CommandError("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")
DELEX_ARITY = CommandError("ERR wrong number of arguments for 'delex' command")

string = partial(command, group="string", categories="string")


@string("digest", 2, "readonly fast", one("RO access"), since="8.4.0")
def digest(c: Context, argv: list[bytes]) -> Reply:
    """The XXH3 hash of a string, as 16 hexadecimal digits; null if the key is missing.

    DIGEST key
    """
    value = c.db.read_string(argv[1])
    return None if value is None else hex_digest(value)


@string("delex", -2, "write fast", one("RW delete variable_flags"), since="8.4.0")
def delex(c: Context, argv: list[bytes]) -> Reply:
    """Remove a key; with a condition, only a string whose value meets it: 1 removed, 0 not.

    DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]
    """
    name = argv[1]
    if len(argv) not in (2, 4):
        raise DELEX_ARITY
    if len(argv) == 2:
        key = c.db.find_row(name)
        return 0 if key is None else _removed(c, key)
    key = c.db.find(name)
    if key is None:
        return 0
    value = key.value
    if type(value) is not bytes:
        raise NOT_A_STRING
    condition = argv[2].upper()
    if condition not in COMPARISONS:
        raise BAD_CONDITION
    return _removed(c, key) if is_met((condition, argv[3]), value) else 0


@string("delifeq", 3, "write fast valkey", one("RM delete"), since="9.0.0")
def delifeq(c: Context, argv: list[bytes]) -> Reply:
    """Remove a string if it has this value: 1 removed, 0 not. Valkey's name for DELEX with IFEQ.

    DELIFEQ key value
    """
    found = c.db.find_string(argv[1])
    return _removed(c, found[0]) if found is not None and found[1] == argv[2] else 0


def _removed(c: Context, key: Key) -> int:
    c.db.remove(key)
    c.db.signal(key.name, b"del", GENERIC)
    return 1
