"""Deletion of entries of a stream with regard to its consumer groups.

A group refers to an entry if it has not got the entry yet, or if the entry is pending. The policy
of a deletion decides about these references. (There is no index from entries to groups. Asking each
group takes one look-up, and streams have few groups; but each delivery and each acknowledgement
would have to update the index.)
"""

from typing import Final

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import to_row

# Policies. KEEP_REFERENCES is the policy of XDEL, and of a trim that names no policy.
KEEP_REFERENCES: Final = 0  # delete the entry; it stays pending where it is
DELETE_REFERENCES: Final = 1  # it is no longer pending anywhere, even if it was deleted before
ONLY_ACKNOWLEDGED: Final = 2  # keep an entry to which a group refers


def is_referenced(stream: Stream, entry_id: int) -> bool:
    """Whether a group refers to the entry. (An entry that does not exist may have references.)"""
    id_row = to_row(entry_id)
    for group in stream.groups.values():
        if group.last_id < entry_id or group.pending.get(id_row) is not None:
            return True
    return False


def _may_delete(stream: Stream, entry_id: int, policy: int, log: ChangeLog) -> bool:
    """Whether the policy allows the deletion. Removes references if the policy says so."""
    if policy == ONLY_ACKNOWLEDGED:
        return not is_referenced(stream, entry_id)
    if policy == DELETE_REFERENCES:
        id_row = to_row(entry_id)
        for group in stream.groups.values():
            stream.release(group, id_row, log)
    return True


def delete(stream: Stream, entry_id: int, policy: int, log: ChangeLog) -> bool | None:
    """XDELEX. Returns whether the entry existed and is deleted; None if the policy forbids the
    deletion."""
    if not _may_delete(stream, entry_id, policy, log):
        return None
    return stream.delete(entry_id, log)


def trim(
    stream: Stream, maxlen: int | None, min_id: int, limit: int, policy: int, log: ChangeLog
) -> int:
    """Remove the oldest entries: those above `maxlen`, or if that is None, those below `min_id`.
    Entries that the policy keeps stay. Returns how many were removed.

    As in Redis, the trim ends before a node that has more entries than the `limit` still allows (0:
    any number), and after a node that cannot be removed as a whole. Kept entries count for
    `maxlen`, so younger entries are removed in their place.
    """
    removed = 0
    for node in list(stream.entries.nodes):
        if maxlen is not None and len(stream) <= maxlen:
            break
        ids = node.ids[:]
        if limit and removed + len(ids) > limit:
            break
        goes = node.last_id < min_id if maxlen is None else len(stream) - len(ids) >= maxlen
        for entry_id in ids:
            if entry_id >= min_id if maxlen is None else len(stream) <= maxlen:
                break
            if _may_delete(stream, entry_id, policy, log):
                stream.remove(entry_id, log)
                removed += 1
        if not goes:
            break
    return removed
