"""The sizes of large hashes, sets and sorted sets, so that HLEN, SCARD and ZCARD of a cold one need
not count a million rows.

If the file has a size, it is right. A slice that writes elements of a key deletes its size in the
same transaction. The size is written again at the end of a pass, if the collection has not changed
since the pass began: then memory has as many elements as the tables.
"""

from typing import Any

import apsw

from holdfast.store.change.ops import HASH_FIELDS, SET_MEMBERS, ZSET_MEMBERS
from holdfast.store.values.hash import Hash

COUNTED = frozenset({HASH_FIELDS, SET_MEMBERS, ZSET_MEMBERS})

# An older Holdfast writes elements and does not know of sizes. It notes `folded_lsn` alone.
ARE_OURS = """
    SELECT (SELECT value FROM holdfast_meta WHERE name = 'sizes_lsn')
      IS (SELECT value FROM holdfast_meta WHERE name = 'folded_lsn')"""
NOTE_FOLDED = "INSERT OR REPLACE INTO holdfast_meta VALUES ('folded_lsn', ?1), ('sizes_lsn', ?1)"
# Not of a key that was flushed, and whose rows are gone.
PUT = (
    "INSERT OR REPLACE INTO redis_sizes"
    " SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM redis_keys WHERE id = ?1)"
)
DELETE = "DELETE FROM redis_sizes WHERE key_id = ?"


class SizeRows:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        # Keys that may have a size in the file. No key is removed from here: if a transaction
        # fails, the file still has their sizes.
        self._known = {key_id for (key_id,) in connection.execute("SELECT key_id FROM redis_sizes")}
        if self._known and not connection.execute(ARE_OURS).get:
            with connection:
                connection.execute("DELETE FROM redis_sizes")

    def touch(self, ids: list[int]) -> None:
        """Elements of these keys are written, or the keys are removed, in the open transaction."""
        known = self._known
        if known:
            for key_id in set(ids):
                if key_id in known:
                    self._connection.execute(DELETE, (key_id,))

    def write(self, collections: list[Any]) -> None:
        """The tables have all of these collections, as memory has them."""
        sizes = [(value.id, len(value)) for value in collections if not _has_deadlines(value)]
        with self._connection:
            self._connection.executemany(PUT, sizes)
        self._known.update([key_id for key_id, _ in sizes])


def _has_deadlines(value: Any) -> bool:
    """Whether the collection may become smaller without a change of a row."""
    return isinstance(value, Hash) and value.has_deadlines
