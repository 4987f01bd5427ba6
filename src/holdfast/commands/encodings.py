"""The encoding that Redis would choose for a collection. OBJECT ENCODING returns it. Two more
things follow from it: the order in which small collections are shown, and whether a scan returns a
collection whole. Our own collections have one form only.
"""

from holdfast.commands.args import is_int
from holdfast.commands.context import Context, Limits
from holdfast.store.memory.key import Key
from holdfast.store.memory.keyspace import LONGEST_EMBEDDED
from holdfast.store.values.hash import Hash
from holdfast.store.values.set import Set
from holdfast.store.values.stream import Stream
from holdfast.store.values.zset import ZSet


def is_listpack(value: Hash, limits: Limits) -> bool:
    return (
        value.most_fields <= limits.hash_max_listpack_entries
        and value.longest <= limits.hash_max_listpack_value
    )


def is_intset(value: Set, limits: Limits) -> bool:
    return value.has_only_integers and value.most_members <= limits.set_max_intset_entries


def is_small_zset(value: ZSet, limits: Limits) -> bool:
    return (
        value.most_members <= limits.zset_max_listpack_entries
        and value.longest <= limits.zset_max_listpack_value
    )


def hash_encoding(value: Hash, limits: Limits) -> bytes:
    if not is_listpack(value, limits):
        return b"hashtable"
    return b"listpack" if value.next_expiry_ms is None else b"listpackex"


def set_encoding(value: Set, limits: Limits) -> bytes:
    return b"intset" if is_intset(value, limits) else b"hashtable"


def zset_encoding(value: ZSet, limits: Limits) -> bytes:
    return b"listpack" if is_small_zset(value, limits) else b"skiplist"


def encoding_of(c: Context, key: Key) -> bytes:
    """The encoding in which Redis would keep the value of a key."""
    value = key.value
    if isinstance(value, Hash):
        return hash_encoding(value, c.limits)
    if isinstance(value, Set):
        return set_encoding(value, c.limits)
    if isinstance(value, ZSet):
        return zset_encoding(value, c.limits)
    if isinstance(value, Stream):
        return b"stream"
    if type(value) is not bytes:
        return b"quicklist"
    if c.keyspace.is_edited(key):
        return b"raw"
    if is_int(value):
        return b"int"
    return b"embstr" if len(value) <= LONGEST_EMBEDDED else b"raw"
