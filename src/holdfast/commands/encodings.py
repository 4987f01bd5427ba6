"""In which form Redis would keep a collection: what OBJECT ENCODING says, and what decides in
which order small ones are shown and whether a scan returns them whole. Ours have one form.
"""

from holdfast.commands.context import Limits
from holdfast.store.hashes import Hash
from holdfast.store.sets import Set
from holdfast.store.zsets import ZSet


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
