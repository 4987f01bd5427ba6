"""Which keys are packed, and their values as bytes (see packed_keys.py).

Small strings and hashes are packed when they are made (`Database.add_string`). The fold packs
other new keys when their pass has ended, because the tables have all of them then. Keys that
changed meanwhile stay as they are, and so do those that a client has used and unpacked.
"""

from typing import TYPE_CHECKING, Any, Final

from holdfast.store.memory.packed_keys import HASH, LONGEST, STRING
from holdfast.store.values.hash import Hash
from holdfast.store.values.list import List
from holdfast.store.values.packed_form import decode, encode
from holdfast.store.values.registry import Value
from holdfast.store.values.set import Set
from holdfast.store.values.zset import ZSet

if TYPE_CHECKING:
    from holdfast.store.memory.key import Key, Space
    from holdfast.store.memory.keyspace import Keyspace

LONGEST_STRING: Final = 1024  # bytes; of longer ones the objects around them are a small part
LIST: Final = 1
SET: Final = 3
ZSET: Final = 4
KINDS: Final = ("string", "list", "hash", "set", "zset")


def body_of(value: Value) -> tuple[int, bytes] | None:
    """Its kind, and its bytes. None if it cannot be packed: it is large, or a stream."""
    if isinstance(value, bytes):
        return (STRING, value) if len(value) <= LONGEST_STRING else None
    if isinstance(value, Hash):
        kind, flat = HASH, value.packable()
    elif isinstance(value, Set):
        kind, flat = SET, value.packable()
    elif isinstance(value, List):
        kind, flat = LIST, value.packable()
    elif isinstance(value, ZSet):
        kind, flat = ZSET, value.packable()
    else:
        return None
    if flat is None:
        return None
    body = encode(flat)
    return None if len(body) > LONGEST else (kind, body)


def value_of(kind: int, key_id: int, body: bytes) -> Value:
    if kind == STRING:
        return body
    value: List | Hash | Set | ZSet
    if kind == HASH:
        value = Hash(key_id)
    elif kind == SET:
        value = Set(key_id)
    elif kind == LIST:
        value = List(key_id)
    else:
        value = ZSet(key_id)
    value.fill_packed(decode(body))
    return value


def pack_clean(keyspace: "Keyspace", keys: "list[Key]", changed: list[dict[int, Any]]) -> None:
    """Pack keys that the tables have, as they are. `changed` are the rows by key id that the next
    pass will write. No batch may be open: only memory has its changes."""
    state = keyspace.fold_state
    shown: Space | None = None  # keys of one space follow each other
    for key in keys:
        space, key_id = key.space, key.id
        if (
            space.keys.get(key.name) is not key
            or state.is_ahead_of_file(key_id)
            or keyspace.has_unwritten_value(key)
            or keyspace.loads.holds(key)
        ):
            continue
        if space is not shown:
            if not keyspace.shows(space):
                continue
            shown = space
        for rows in changed:
            if key_id in rows:
                break
        else:
            keyspace.pack(key)
