"""Walks over all keys of a database, those in memory and those that only the file has, while keys
come, go and move from one to the other."""

import random
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from holdfast.store.change.ops import FIRST_ID
from holdfast.store.memory.key import Key, Space
from holdfast.store.memory.liveness import is_live
from holdfast.store.memory.packing import KINDS

if TYPE_CHECKING:
    from holdfast.store.memory.keyspace import Keyspace

id_of: Final = attrgetter("id")

MOST_IDS_PASSED = 1000  # by one call of SCAN that finds nothing; about a millisecond

Found = list[tuple[bytes, str]]  # names and types


def scan(
    keyspace: "Keyspace",
    space: Space,
    after_id: int,
    limit: int,
    expired: list[bytes] | None = None,
) -> tuple[int, Found]:
    """`walk` for walks during which keys change: a name that exists during the whole walk is seen,
    perhaps more than once. Ids of other spaces and of removed keys are skipped, some in each call,
    so that a walk needs few more calls than the keys of the space need. `expired` gets the names of
    expired keys that the walk meets."""
    if not space.cold and len(space.keys) <= limit:
        now_ms = keyspace.now_ms
        living = [key for key in space.keys.values() if is_live(key.expires_at_ms, now_ms)]
        if expired is not None and len(living) < len(space.keys):
            expired += [
                key.name for key in space.keys.values() if not is_live(key.expires_at_ms, now_ms)
            ]
        return 0, [(key.name, key.type_name) for key in living]
    last_id, found = walk(keyspace, space, after_id, limit, expired)
    for _ in range(MOST_IDS_PASSED // limit):
        if found or not last_id:
            break
        last_id, found = walk(keyspace, space, last_id, limit, expired)
    for name in keyspace.renamed.between(after_id, last_id or keyspace.next_id, space):
        key = space.keys.get(name) or (
            keyspace.load(space, name, only_row=True) if space.cold else None
        )
        if key is not None and key.id <= after_id:
            _add(key, space, found, expired, keyspace)
    return last_id, found


def walk(
    keyspace: "Keyspace",
    space: Space,
    after_id: int,
    limit: int,
    expired: list[bytes] | None = None,
) -> tuple[int, Found]:
    """Living keys in order of id, from memory and file.

    Looks at no more than `limit` ids. Returns the id to go on after, 0 at the end. A key
    keeps its id for life, so one that is there throughout is seen; one that is created
    meanwhile has a higher id and comes later.
    """
    found: Found = []
    state = keyspace.fold_state
    if keyspace.tables is not None and after_id < state.folded_below_id:
        rows = keyspace.tables.rows_after(after_id, state.folded_below_id, limit)
        for key_id, space_id, name, type_name, expires_at_ms in rows:
            after_id = key_id
            key = state.changed_key(key_id)
            if key is not None:
                _add(key, space, found, expired, keyspace)
            elif space_id == space.id:
                if is_live(expires_at_ms, keyspace.now_ms):
                    found.append((name, type_name))
                elif expired is not None:
                    expired.append(name)
        limit -= len(rows)
    if limit > 0:
        after_id = _walk_created(keyspace, space, after_id, limit, found, expired)
    return after_id, found


def _walk_created(
    keyspace: "Keyspace",
    space: Space,
    after_id: int,
    limit: int,
    found: Found,
    expired: list[bytes] | None,
) -> int:
    """The part of a walk that goes over keys which the tables lack. Returns as `walk`."""
    created = keyspace.fold_state.created
    at = max(bisect_right(created, after_id, key=id_of) - 1, 0)  # it may have ids behind its first
    while at < len(created):
        entry = created[at]
        if isinstance(entry, Key):
            if entry.id > after_id:
                after_id = entry.id
                limit -= 1
                _add(entry, space, found, expired, keyspace)
        else:
            start = max(after_id + 1 - entry.id, 0)
            names = entry.names[start : start + limit]
            for name in names:
                after_id = entry.id + start
                start += 1
                _add_packed(entry.space, after_id, name, space, found, expired, keyspace)
            limit -= len(names)
            if start < len(entry.names):
                return after_id
        at += 1
        if limit <= 0 and at < len(created):
            return after_id
    return 0


def _add_packed(
    packed_in: Space,
    key_id: int,
    name: bytes,
    space: Space,
    found: Found,
    expired: list[bytes] | None,
    keyspace: "Keyspace",
) -> None:
    """Add a key that was packed when it was made."""
    if packed_in is space and space.packed is not None:
        row = space.packed.row(name)
        if row is not None and row[0] == key_id:
            found.append((name, KINDS[row[1]]))  # it does not expire
            return
    key = keyspace.fold_state.revived_key(key_id)
    if key is not None:
        _add(key, space, found, expired, keyspace)


def names(keyspace: "Keyspace", space: Space) -> Iterator[bytes]:
    cursor = 0
    while len(space):
        cursor, found = walk(keyspace, space, cursor, 1000)
        for name, _ in found:
            yield name
        if not cursor:
            return


def random_name(
    keyspace: "Keyspace", space: Space, rng: random.Random, expired: list[bytes] | None = None
) -> bytes | None:
    """A living key from a random place, or None if there is none. `expired` means the same as for
    `scan`."""
    for _ in range(32 if len(space) else 0):
        after_id = rng.randrange(FIRST_ID - 1, keyspace.next_id)
        _, found = walk(keyspace, space, after_id, 16, expired)
        if found:
            return rng.choice(found)[0]
    return next(names(keyspace, space), None)


def _add(
    key: Key, space: Space, found: Found, expired: list[bytes] | None, keyspace: "Keyspace"
) -> None:
    if key.space is space and key.is_attached:
        if is_live(key.expires_at_ms, keyspace.now_ms):
            found.append((key.name, key.type_name))
        elif expired is not None:
            expired.append(key.name)
