"""MAXCOUNT and MAXSIZE of XREAD and XREADGROUP: limits for a whole reply, not for each stream."""

from collections.abc import Iterable

from holdfast.store.values.stream_entries import Entry, Fields
from holdfast.store.values.stream_id import text_of


class Budget:
    """The number of entries and of bytes that a reply may still have; None means any number.

    As in Redis, a reply ends when it has reached the limit of bytes, so its last entry may exceed
    it. A stream is left out if the limits are reached before it. Otherwise it gives one entry at
    least, so a client that reads again and again makes progress.
    """

    __slots__ = ("_entries", "_nbytes")

    def __init__(self, entries: int | None, nbytes: int | None) -> None:
        self._entries = entries
        self._nbytes = nbytes

    @property
    def is_spent(self) -> bool:
        has_entries = self._entries is None or self._entries > 0
        return not (has_entries and (self._nbytes is None or self._nbytes > 0))

    def spend(self, text: bytes, fields: Fields) -> None:
        """Count an entry that is added to the reply: its id and its fields."""
        if self._entries is not None:
            self._entries -= 1
        if self._nbytes is not None:
            heads = 8 + len(str(len(fields)))
            self._nbytes -= heads + _bulk_bytes(text) + sum(map(_bulk_bytes, fields))

    def begin(self, name: bytes) -> None:
        """Count a stream that is added to the reply."""
        if self._nbytes is not None:
            self._nbytes -= 8 + _bulk_bytes(name)

    def take(self, entries: Iterable[Entry], least: int = 1) -> list[Entry]:
        """The first entries of a stream: as many as fit, but at least `least`."""
        taken: list[Entry] = []
        for entry in entries:
            if len(taken) >= least and self.is_spent:
                break
            self.spend(text_of(entry[0]), entry[1])
            taken.append(entry)
        return taken


def _bulk_bytes(text: bytes) -> int:
    """The size of a text in the protocol: `$length`, the text, and two ends of lines."""
    return len(text) + len(str(len(text))) + 5
