"""Changes of the idempotent ids of a stream: XADD IDMP and XCFGSET.

Forgotten ids leave memory and the file when new ids are added, some at a time: there is no timer.
So a stream without new messages keeps its last ids, and functions that read ids skip the forgotten
ones.
"""

from collections.abc import Sequence
from typing import Final

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.change.ops import STREAM_IDEMPOTENCE, STREAM_IIDS, row_op
from holdfast.store.change.undo import RowUndo
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_id import to_row
from holdfast.store.values.stream_idempotence import IdempotentIds, SettingsRow

# With each new id, up to so many forgotten ids are removed, of its producer and of another one.
REMOVED_AT_ONCE: Final = 16


def find(stream: Stream, producer: bytes, iid: bytes, now_ms: int) -> int | None:
    """The entry of this message, if the producer has sent the message before."""
    ids = stream.idempotence
    return None if ids is None else ids.find(producer, iid, now_ms)


def record(
    stream: Stream, producer: bytes, iid: bytes, entry_id: int, now_ms: int, log: ChangeLog
) -> None:
    """Note that the message of a producer became this entry. The stream must have settings."""
    ids = stream.idempotence
    assert ids is not None
    stream.write_row(STREAM_IIDS, (producer, iid), to_row(entry_id), log)
    _set(stream, (ids.duration_s, ids.maxsize, ids.added + 1, ids.duplicates), log)
    _forget(stream, ids, producer, now_ms, log)
    of_producer = ids.producers[producer]
    for old_iid, _ in of_producer.oldest(max(len(of_producer) - ids.maxsize, 0)):
        stream.write_row(STREAM_IIDS, (producer, old_iid), None, log)
    # Also take another producer, in turn. Otherwise the ids of a producer that has stopped would
    # stay for ever.
    other = next(iter(ids.producers))
    if _forget(stream, ids, other, now_ms, log):
        ids.producers[other] = ids.producers.pop(other)  # so that it is the last in turn


def count_duplicate(stream: Stream, log: ChangeLog) -> None:
    """Count a message that came again."""
    ids = stream.idempotence
    assert ids is not None
    _set(stream, (ids.duration_s, ids.maxsize, ids.added, ids.duplicates + 1), log)


def begin(stream: Stream, duration_s: int, maxsize: int, log: ChangeLog) -> None:
    """Give the stream these settings, if it has none."""
    if stream.idempotence is None:
        _set(stream, (duration_s, maxsize, 0, 0), log)


def fill(
    stream: Stream, settings: SettingsRow, iids: Sequence[tuple[bytes, bytes, int]], log: ChangeLog
) -> None:
    """RESTORE: take the settings and ids of another stream, each with its producer and its
    entry."""
    _set(stream, settings, log)
    for producer, iid, entry_id in iids:
        stream.write_row(STREAM_IIDS, (producer, iid), to_row(entry_id), log)


def configure(stream: Stream, duration_s: int | None, maxsize: int | None, log: ChangeLog) -> bool:
    """XCFGSET; None leaves a setting as it is. A changed setting forgets all ids. The same settings
    change nothing, so that each producer can set them before it begins. Returns whether a setting
    changed. The stream must have settings."""
    ids = stream.idempotence
    assert ids is not None
    old = (ids.duration_s, ids.maxsize)
    new = (old[0] if duration_s is None else duration_s, old[1] if maxsize is None else maxsize)
    if new == old:
        return False
    for sub, _ in ids.rows():
        stream.write_row(STREAM_IIDS, sub, None, log)
    _set(stream, (*new, ids.added, ids.duplicates), log)
    return True


def _set(stream: Stream, row: SettingsRow, log: ChangeLog) -> None:
    ids = stream.idempotence
    if log.undo is not None:
        was = None if ids is None else ids.row
        log.undo.append(RowUndo(STREAM_IDEMPOTENCE, stream, None, was))
    nbytes = stream.nbytes
    stream.apply_idempotence(None, row)
    log.used_bytes += stream.nbytes - nbytes
    assert stream.idempotence is not None
    op = row_op(STREAM_IDEMPOTENCE, stream.id, None, row)
    stream.idempotence.settings_row.write(op, log)


def _forget(
    stream: Stream, ids: IdempotentIds, producer: bytes, now_ms: int, log: ChangeLog
) -> bool:
    """Remove some of the producer's forgotten ids. Returns whether ids of the producer remain."""
    first = ids.first_kept(now_ms)
    for iid, entry_id in ids.producers[producer].oldest(REMOVED_AT_ONCE):
        if entry_id >= first:
            break
        stream.write_row(STREAM_IIDS, (producer, iid), None, log)
    return producer in ids.producers
