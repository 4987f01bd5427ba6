"""The invariants of every file and of every keyspace."""

from pathlib import Path

import apsw

from holdfast.store.change.fold_state import PackedNames
from holdfast.store.memory.key import Space
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.memory.packing import KINDS, value_of
from holdfast.store.rdb.plain import plain_of
from holdfast.store.values.insertion_order import Ordered
from holdfast.store.values.list import List

# Each query finds rows that must not be: at any moment …
NEVER = {
    "a space's size is not what is in it": """
        SELECT * FROM redis_space_sizes s
        WHERE keys <> (SELECT count(*) FROM redis_keys k WHERE k.space = s.space)""",
    "keys in a space without a size": """
        SELECT * FROM redis_keys WHERE space NOT IN (SELECT space FROM redis_space_sizes)""",
    "names that their keys do not have": """
        SELECT n.id FROM redis_names n LEFT JOIN redis_keys k ON k.id = n.id
        WHERE k.id IS NULL OR k.space <> n.space OR CAST(k.name AS TEXT) <> n.name""",
    "a size is not that of its key": """
        SELECT * FROM redis_sizes s WHERE elements <>
          (SELECT count(*) FROM redis_hash_fields f WHERE f.key_id = s.key_id)
          + (SELECT count(*) FROM redis_set_members m WHERE m.key_id = s.key_id)
          + (SELECT count(*) FROM redis_zset_members z WHERE z.key_id = s.key_id)
        OR key_id NOT IN (SELECT id FROM redis_keys)""",
    "a list's length is not what is in it": """
        SELECT * FROM redis_list_meta m
        WHERE singles <> (SELECT count(*) FROM redis_list_items i WHERE i.key_id = m.key_id)
        OR length - singles <> (SELECT count(value) FROM redis_list_blocks b, json_each(sizes)
                                WHERE b.key_id = m.key_id)
        OR off_grid <> (SELECT count(*) FROM redis_list_items i
                        WHERE i.key_id = m.key_id AND pos & 0xFFFFF)""",
    "elements of a list without a length": """
        SELECT key_id FROM
          (SELECT key_id FROM redis_list_items UNION SELECT key_id FROM redis_list_blocks)
        WHERE key_id NOT IN
          (SELECT key_id FROM redis_list_meta UNION SELECT id FROM redis_graves)""",
    "empty blocks, or such that are not what their sizes say": """
        SELECT key_id, pos, sizes FROM redis_list_blocks
        WHERE length(data) <> (SELECT sum(value) FROM json_each(sizes))
        OR json_extract(sizes, '$[0]') IS NULL OR json_extract(sizes, '$[#-1]') IS NULL
        OR first + json_array_length(sizes) > 32 OR pos & 0x1FFFFFF""",
    "elements of a list that is neither alive nor in a grave": """
        SELECT key_id FROM
          (SELECT key_id FROM redis_list_items UNION SELECT key_id FROM redis_list_blocks)
        WHERE key_id NOT IN (SELECT id FROM redis_keys UNION SELECT id FROM redis_graves)""",
    "strings without a key": """
        SELECT * FROM redis_strings WHERE key_id NOT IN (SELECT id FROM redis_keys)""",
}
# … and when everything is folded.
SETTLED = {
    "a journal": "SELECT lsn FROM journal",
    "graves": "SELECT * FROM redis_graves",
    "keys without a name": """
        SELECT id FROM redis_keys k WHERE NOT EXISTS (SELECT 1 FROM redis_names n
          WHERE n.space = k.space AND n.name = CAST(k.name AS TEXT) AND n.id = k.id)""",
    "two keys of one name": "SELECT * FROM redis_keys GROUP BY space, name HAVING count(*) > 1",
    "keys in a space that nobody shows": """
        SELECT * FROM redis_keys WHERE space NOT IN (SELECT space FROM redis_databases)""",
    "two databases that show one space": """
        SELECT * FROM redis_databases GROUP BY space HAVING count(*) > 1""",
    "strings without a value": """
        SELECT * FROM redis_keys
        WHERE type = 'string' AND id NOT IN (SELECT key_id FROM redis_strings)""",
    "empty lists": """
        SELECT * FROM redis_keys
        WHERE type = 'list' AND id NOT IN
          (SELECT key_id FROM redis_list_items UNION SELECT key_id FROM redis_list_blocks)""",
    "empty hashes": """
        SELECT * FROM redis_keys
        WHERE type = 'hash' AND id NOT IN (SELECT key_id FROM redis_hash_fields)""",
    "empty sets": """
        SELECT * FROM redis_keys
        WHERE type = 'set' AND id NOT IN (SELECT key_id FROM redis_set_members)""",
    "empty sorted sets": """
        SELECT * FROM redis_keys
        WHERE type = 'zset' AND id NOT IN (SELECT key_id FROM redis_zset_members)""",
    "streams without a last id": """
        SELECT * FROM redis_keys
        WHERE type = 'stream' AND id NOT IN (SELECT key_id FROM redis_stream_meta)""",
    "consumers and pending entries of no group": """
        SELECT key_id, group_name FROM
          (SELECT key_id, group_name FROM redis_stream_consumers
           UNION SELECT key_id, group_name FROM redis_stream_pending)
        WHERE (key_id, group_name) NOT IN (SELECT key_id, name FROM redis_stream_groups)""",
    "pending entries of no consumer, and not returned": """
        SELECT key_id FROM redis_stream_pending WHERE (key_id, group_name, consumer)
          NOT IN (SELECT key_id, group_name, name FROM redis_stream_consumers)
          AND (delivered_at_ms >= 0 OR consumer <> x'')""",
    "idempotent ids of a stream without settings": """
        SELECT key_id FROM redis_stream_iids
        WHERE key_id NOT IN (SELECT key_id FROM redis_stream_idempotence)""",
    "what hashes, sets and streams left behind": """
        SELECT key_id FROM
          (SELECT key_id FROM redis_hash_fields UNION SELECT key_id FROM redis_set_members
           UNION SELECT key_id FROM redis_zset_members UNION SELECT key_id FROM redis_stream_meta
           UNION SELECT key_id FROM redis_stream_entries
           UNION SELECT key_id FROM redis_stream_groups
           UNION SELECT key_id FROM redis_stream_idempotence
           UNION SELECT key_id FROM redis_stream_consumers)
        WHERE key_id NOT IN (SELECT id FROM redis_keys)""",
    "what lists left behind": """
        SELECT * FROM redis_list_meta WHERE key_id NOT IN (SELECT id FROM redis_keys)""",
}


def check_rows(path: Path) -> None:
    _check(path, NEVER)


def check_settled(path: Path) -> None:
    """After a clean close."""
    _check(path, NEVER | SETTLED)


def _check(path: Path, forbidden: dict[str, str]) -> None:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        for what, query in forbidden.items():
            rows = list(connection.execute(query))
            assert not rows, f"{what}: {rows[:5]}"
        assert connection.execute("PRAGMA integrity_check").get == "ok"
    finally:
        connection.close()


def check_counts(keyspace: Keyspace) -> None:
    """Does a keyspace know how many keys are where, and how much memory they take?"""
    ids: list[int] = []
    packed_new: dict[int, tuple[Space, bytes]] = {}
    for entry in keyspace.fold_state.created:
        if isinstance(entry, PackedNames):
            ids += range(entry.id, entry.id + len(entry.names))
            names = enumerate(entry.names, entry.id)
            packed_new |= {key_id: (entry.space, name) for key_id, name in names}
        else:
            ids.append(entry.id)
    assert ids == sorted(set(ids))
    used_bytes = 0
    for database in keyspace.databases:
        space = database.space
        for name, key in space.keys.items():
            assert (key.name, key.space) == (name, space)
            used_bytes += key.nbytes
            if isinstance(key.value, List):
                key.value.check()
        for name, key in space.unloaded.items():
            assert (key.name, key.space) == (name, space)
            assert not key.is_loaded
            assert not key.value
            used_bytes += key.nbytes
        assert not space.unloaded.keys() & space.keys.keys()
        if keyspace.tables is not None:
            in_memory = {key.id for key in space.in_memory()}
            new = _check_packed(keyspace, space, packed_new)
            cold = _count_cold(keyspace, space.id, in_memory)
            assert space.cold == len(space.unloaded) + cold + new
        used_bytes += space.packed_bytes
    assert keyspace.used_bytes == used_bytes


def _check_packed(
    keyspace: Keyspace, space: Space, packed_new: dict[int, tuple[Space, bytes]]
) -> int:
    """The file has each packed key, as it is, or the fold knows its name. Returns the number of
    those that the fold knows."""
    new = 0
    for name in space.packed.names() if space.packed is not None else ():
        assert name not in space.keys
        assert name not in space.unloaded
        packed = space.packed.take(name)
        key_id, kind, _, expires_at_ms, body = packed
        space.packed.put(name, *packed)
        if keyspace.fold_state.is_ahead_of_file(key_id):
            assert packed_new[key_id] == (space, name)
            assert keyspace.fold_state.revived_key(key_id) is None
            new += 1
            continue
        assert keyspace.tables is not None
        [row] = [row for row in keyspace.tables.rows_named(space.id, name) if row[0] == key_id]
        assert row == (key_id, KINDS[kind], expires_at_ms)
        stored, rest = keyspace.tables.value(key_id, KINDS[kind], lambda nbytes: None)
        assert rest is None
        value = value_of(kind, key_id, body)
        assert plain_of(value) == plain_of(stored)
        if isinstance(value, Ordered):
            assert isinstance(stored, Ordered)
            names = list(value)
            assert value.rows(names) == stored.rows(names)
        elif isinstance(value, List):
            assert isinstance(stored, List)
            assert list(value.rows()) == list(stored.rows())
    return new


def _count_cold(keyspace: Keyspace, space_id: int, in_memory: set[int]) -> int:
    assert keyspace.tables is not None
    rows = keyspace.tables._execute("SELECT id FROM redis_keys WHERE space = ?", (space_id,))
    ids = [key_id for (key_id,) in rows if key_id not in in_memory]
    return sum(not keyspace.fold_state.is_ahead_of_file(key_id) for key_id in ids)
