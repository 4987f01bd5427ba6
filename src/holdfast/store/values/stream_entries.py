"""The entries of a stream in memory. Its nodes end where those of Redis end.

Clients can see where a node ends: `XTRIM … ~` removes whole nodes, and XINFO counts them. Redis
ends a node after so many entries, or so many bytes of its packed form, which are counted here.
Nodes are not in the file; a loaded value gets new ones by the same rule, with the default limits.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import Final

from holdfast.store.values.stream_id import parts_of

NODE_ENTRIES, NODE_BYTES = 100, 4096  # Redis's defaults of stream-node-max-…
MOST_NODE_BYTES: Final = 1 << 30  # the limit if a setting of 0 says that there is none

Fields = tuple[bytes, ...]
Entry = tuple[int, Fields]


def length_of(texts: Fields) -> int:
    """The total length of the texts."""
    length = 0
    for text in texts:
        length += len(text)
    return length


class Node:
    """Some neighbouring entries. `first_id` and `last_id` stay if their entries are removed, and
    `slots` also counts removed entries."""

    __slots__ = (
        "_first_ms",
        "_first_sequence",
        "fields",
        "first_id",
        "ids",
        "last_id",
        "names",
        "packed_bytes",
        "slots",
    )

    def __init__(self, first_id: int, names: Fields) -> None:
        self.ids: list[int] = []
        self.fields: list[Fields] = []
        self.begin_at(first_id)
        self.last_id = first_id
        self.names = names
        self.slots = 0
        # Header and end, three numbers, the names, a terminator.
        self.packed_bytes = 13 + _number_bytes(len(names)) + sum(map(_text_bytes, names))

    def begin_at(self, first_id: int) -> None:
        self.first_id = first_id
        self._first_ms, self._first_sequence = parts_of(first_id)

    def has_room_for(self, text_bytes: int, node_entries: int, node_bytes: int) -> bool:
        is_full = self.slots >= node_entries > 0
        return not is_full and self.packed_bytes + text_bytes < (node_bytes or MOST_NODE_BYTES)

    def append(self, entry_id: int, ms: int, sequence: int, fields: Fields) -> None:
        """Append an entry. The id is given as a number and in parts."""
        self.ids.append(entry_id)
        self.fields.append(fields)
        self.last_id = entry_id
        self.slots += 1
        ms -= self._first_ms
        sequence -= self._first_sequence
        # Numbers that are usually small, with a zero; then the texts. The sum is written out,
        # because it runs for each XADD.
        nbytes = 2
        nbytes += 2 if 0 <= ms <= 127 else _number_bytes(ms)
        nbytes += 2 if 0 <= sequence <= 127 else _number_bytes(sequence)
        count = len(fields) // 2
        names = self.names
        has_same_names = count == len(names)
        at = 0
        while has_same_names and at < count:
            has_same_names = fields[2 * at] == names[at]
            at += 1
        if has_same_names:
            nbytes += 2 if count <= 124 else _number_bytes(count + 3)
        else:
            nbytes += _number_bytes(count) + _number_bytes(2 * count + 4)
        at, step = (1, 2) if has_same_names else (0, 1)
        while at < len(fields):
            length = len(fields[at])
            nbytes += length + 2 if 20 < length < 64 else _text_bytes(fields[at])
            at += step
        self.packed_bytes += nbytes


class Entries:
    """Entries ordered by id. They are appended at the end, and removed anywhere."""

    __slots__ = ("_firsts", "_last_at", "_length", "nodes")

    def __init__(self) -> None:
        self.nodes: list[Node] = []  # none is empty
        self._firsts: list[int] = []  # their first_id
        self._length = 0
        self._last_at = 0  # the node of the last search: a client that reads on needs the same node

    def __len__(self) -> int:
        return self._length

    # -- looking ------------------------------------------------------------------------------

    @property
    def first(self) -> Entry | None:
        return (self.nodes[0].ids[0], self.nodes[0].fields[0]) if self.nodes else None

    @property
    def last(self) -> Entry | None:
        return (self.nodes[-1].ids[-1], self.nodes[-1].fields[-1]) if self.nodes else None

    def get(self, entry_id: int) -> Fields | None:
        if not self.nodes:
            return None
        node = self.nodes[self._at(entry_id)]
        at = bisect_left(node.ids, entry_id)
        return node.fields[at] if at < len(node.ids) and node.ids[at] == entry_id else None

    def range(self, low: int, high: int) -> Iterator[Entry]:
        """The entries between two ids, both included."""
        for k in range(self._at(low), len(self.nodes)):
            node = self.nodes[k]
            if node.ids[0] > high:
                return
            start, stop = bisect_left(node.ids, low), bisect_right(node.ids, high)
            yield from zip(node.ids[start:stop], node.fields[start:stop], strict=True)

    def first_from(self, low: int, count: int) -> list[Entry]:
        """Up to `count` entries, from the id `low` on."""
        found: list[Entry] = []
        for k in range(self._at(low), len(self.nodes)):
            ids, fields = self.nodes[k].ids, self.nodes[k].fields
            start = bisect_left(ids, low)
            stop = min(start + count - len(found), len(ids))
            found += [(ids[at], fields[at]) for at in range(start, stop)]
            if len(found) == count:
                break
        return found

    def reversed_range(self, low: int, high: int) -> Iterator[Entry]:
        for k in range(self._at(high), -1, -1) if self.nodes else ():
            node = self.nodes[k]
            if node.ids[-1] < low:
                return
            start, stop = bisect_left(node.ids, low), bisect_right(node.ids, high)
            entries = zip(node.ids[start:stop], node.fields[start:stop], strict=True)
            yield from reversed(list(entries))

    def excess(self, maxlen: int | None, min_id: int) -> int:
        """How many entries at the front are too many, or have an id below `min_id`."""
        if maxlen is not None:
            return max(0, self._length - maxlen)
        count = 0
        for node in self.nodes:
            if node.ids[-1] >= min_id:
                return count + bisect_left(node.ids, min_id)
            count += len(node.ids)
        return count

    def excess_nodes(self, maxlen: int | None, min_id: int, limit: int) -> int:
        """The same, but only in whole nodes, and not more than `limit` entries (0: no limit)."""
        count = 0
        for node in self.nodes:
            after = count + len(node.ids)
            if maxlen is not None:
                is_too_much = count < self._length - maxlen >= after
            else:
                is_too_much = node.last_id < min_id
            if not is_too_much or (limit and after > limit):
                break
            count = after
        return count

    # -- changing -----------------------------------------------------------------------------

    def append(
        self,
        entry_id: int,
        ms: int,
        sequence: int,
        fields: Fields,
        text_bytes: int,
        node_entries: int = NODE_ENTRIES,
        node_bytes: int = NODE_BYTES,
    ) -> None:
        """Add an entry after all others, in a new node if the last one has no room. The id is given
        as a number and in parts."""
        node = self.nodes[-1] if self.nodes else None
        if node is None or not node.has_room_for(text_bytes, node_entries, node_bytes):
            node = Node(entry_id, fields[::2])
            self.nodes.append(node)
            self._firsts.append(entry_id)
        node.append(entry_id, ms, sequence, fields)
        self._length += 1

    def put(self, entry_id: int, fields: Fields) -> Fields | None:
        """Set the fields of an entry. Returns its old fields."""
        if not self.nodes or entry_id > self.nodes[-1].last_id:
            ms, sequence = parts_of(entry_id)
            self.append(entry_id, ms, sequence, fields, length_of(fields))
            return None
        k = self._at(entry_id)
        node = self.nodes[k]
        at = bisect_left(node.ids, entry_id)
        if at < len(node.ids) and node.ids[at] == entry_id:
            old, node.fields[at] = node.fields[at], fields
            return old
        node.ids.insert(at, entry_id)
        node.fields.insert(at, fields)
        node.slots = max(node.slots, len(node.ids))
        if entry_id < node.first_id:
            node.begin_at(entry_id)
            self._firsts[k] = entry_id
        self._length += 1
        if len(node.ids) > 2 * NODE_ENTRIES:
            self._split(k)
        return None

    def pop(self, entry_id: int) -> Fields | None:
        """Remove an entry. Returns its fields."""
        if not self.nodes:
            return None
        k = self._at(entry_id)
        node = self.nodes[k]
        at = bisect_left(node.ids, entry_id)
        if at == len(node.ids) or node.ids[at] != entry_id:
            return None
        fields = node.fields[at]
        del node.ids[at], node.fields[at]
        self._length -= 1
        if not node.ids:
            del self.nodes[k], self._firsts[k]
        return fields

    def first_ids(self, count: int) -> list[int]:
        return list(islice((entry_id for node in self.nodes for entry_id in node.ids), count))

    # -- parts --------------------------------------------------------------------------------

    def _at(self, entry_id: int) -> int:
        """The index of the node for this id, whether the entry exists or not."""
        firsts = self._firsts
        at = self._last_at
        after = at + 1
        if (
            after > len(firsts)
            or entry_id < firsts[at]
            or (after < len(firsts) and entry_id >= firsts[after])
        ):
            at = self._last_at = max(0, bisect_right(firsts, entry_id) - 1)
        return at

    def _split(self, k: int) -> None:
        """Split a node that is too large. A node grows beyond its limit when entries come back
        after a failed script, because they are not appended."""
        node = self.nodes[k]
        half = len(node.ids) // 2
        new = Node(node.ids[half], node.names)
        for entry_id, fields in zip(node.ids[half:], node.fields[half:], strict=True):
            ms, sequence = parts_of(entry_id)
            new.append(entry_id, ms, sequence, fields)
        new.last_id, node.last_id = node.last_id, node.ids[half - 1]
        del node.ids[half:], node.fields[half:]
        node.slots = half
        self.nodes.insert(k + 1, new)
        self._firsts.insert(k + 1, new.first_id)


# -- Redis's packed form: how many bytes things take in it -----------------------------------------

_is_integer = re.compile(rb"0|-?[1-9][0-9]{0,18}").fullmatch
# The largest magnitude for each number of bytes, which includes the byte for the length.
_LARGEST = ((32767, 4), (8388607, 5), (2147483647, 6))
_LONGEST = ((127, 1), (16383, 2), (2097151, 3), (268435455, 4))


def _number_bytes(number: int) -> int:
    if 0 <= number <= 127:
        return 2
    if -4096 <= number <= 4095:
        return 3
    magnitude = number if number >= 0 else -number - 1
    return next((nbytes for largest, nbytes in _LARGEST if magnitude <= largest), 10)


def _text_bytes(text: bytes) -> int:
    length = len(text)
    if length <= 20 and text[:1] in b"-0123456789" and _is_integer(text):
        number = int(text)
        if -(1 << 63) <= number < 1 << 63:
            return _number_bytes(number)
    nbytes = length + (1 if length < 64 else 2 if length < 4096 else 5)
    return nbytes + next((more for longest, more in _LONGEST if nbytes <= longest), 5)
