"""The changes that the tables of the file lack: keys, strings and elements that changed since the
last pass of the fold, and those that the running pass writes.

Memory notes changes here, and the fold takes them. This file does not know the types of keys and
collections.
"""

from bisect import bisect_left
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")  # a key; it has an `id`

NO_ID: Final = 1 << 60  # above all ids
LARGE: Final = 1000  # elements; counting fewer rows takes 0.1 ms
MOST_NAMES: Final = 500  # that are freed together, with the object that has them
ASKED_KEYS: Final = 512  # after so many packed keys it is decided how to make the next ones
# Of so many keys, so many are packed at once even if most are used again soon.
PROBED_KEYS: Final = 1024
PROBES: Final = 64

_id: Final = attrgetter("id")


class PackedNames:
    """Keys whose ids follow each other, and that were packed when they were made: the first id,
    the space, and the names."""

    __slots__ = ("id", "names", "space")

    def __init__(self, first_id: int, space: Any) -> None:
        self.id = first_id
        self.space = space
        self.names: list[bytes] = []


class FoldState(Generic[K]):
    """Passes of the fold have numbers, and `next_fold` is the number of the next one to begin. All
    passes before `_first_fold_due` are complete.

    Rows of keys: a key with `id >= folded_below_id` was created since the last complete pass, and
    `created` has it, or its name if it was packed when it was made. If such a key is unpacked, it
    is `revived`. `unfolded` has older keys whose row changed since. While a pass runs,
    `unfolded_in_pass` has the keys whose rows it writes, and `pass_below_id` is the
    `folded_below_id` that its end will set.

    Values: the fold reads strings, and elements of hashes and sets, from memory. So only keys and
    names are noted here, once for each pass: `dirty_in_fold` of a key or collection is the
    `next_fold` for which it was noted last. Keys from `whole_from_id` on need no note: the next
    pass finds them in `created`.

    Sizes: `large` has collections with `large_from` elements or more that changed. After a pass, if
    nothing changed meanwhile, the fold writes the number of their elements.
    """

    __slots__ = (
        "_created_from_id",
        "_element_count_in_pass",
        "_first_fold_due",
        "_packed",
        "_packed_count",
        "_packs_all",
        "_revived_count",
        "created",
        "dirty_element_count",
        "dirty_elements",
        "dirty_strings",
        "elements_in_pass",
        "folded_below_id",
        "large",
        "large_from",
        "next_fold",
        "pass_below_id",
        "revived",
        "revived_in_pass",
        "strings_in_pass",
        "unfolded",
        "unfolded_in_pass",
        "whole_from_id",
    )

    def __init__(self, next_id: int) -> None:
        """The tables have all keys with ids below this one."""
        self.next_fold = 1
        self._first_fold_due = 1
        self.folded_below_id = next_id
        self.pass_below_id = next_id
        # Until recovery is complete, the fold takes all rows from operations.
        self._created_from_id = self.whole_from_id = NO_ID
        self.created: list[K | PackedNames] = []  # ordered by id; some of them may be dead
        self._packed: PackedNames | None = None  # the last of `created`, if it takes more names
        self._packs_all = True
        self._packed_count = self._revived_count = 0  # since the last decision
        self.revived: dict[int, K] = {}  # by id; some of them may be dead
        self.revived_in_pass: dict[int, K] = {}
        self.unfolded: dict[int, K] = {}
        self.unfolded_in_pass: dict[int, K] = {}
        self.dirty_strings: list[K] = []
        self.strings_in_pass: list[K] = []
        self.dirty_elements: list[tuple[Any, list[bytes]]] = []  # collections, each with names
        self.elements_in_pass: list[tuple[Any, list[bytes]]] = []
        self.dirty_element_count = self._element_count_in_pass = 0
        self.large: dict[int, Any] = {}  # by id
        self.large_from = LARGE

    def recovered(self, folded_below_id: int, created: list[K]) -> None:
        """Called when memory has read the journal."""
        self.folded_below_id = self.pass_below_id = folded_below_id
        self.created = [*created]

    def begin_creating(self, next_id: int) -> None:
        """Recovery is complete: the fold reads keys from this id on from memory."""
        self._created_from_id = self.whole_from_id = next_id

    # -- keys that are packed when they are made ----------------------------------------------

    def packs(self, key_id: int) -> bool:
        """Whether a new key with this id is packed at once.

        To revive a key costs about what it saves to pack a key that is not used again. So if more
        than a third of the keys are revived (a session gets its expiry at once, a job its worker),
        new keys are objects, except some that tell whether this is still so.
        """
        return self._packs_all or key_id % PROBED_KEYS < PROBES

    def note_packed(self, key_id: int, space: Any, name: bytes) -> None:
        """A new key was packed at once."""
        self._packed_count += 1
        if self._packed_count >= ASKED_KEYS:
            self._packs_all = 3 * self._revived_count <= self._packed_count
            self._packed_count = self._revived_count = 0
        last = self._packed
        if (
            last is None
            or last.space is not space
            or last.id + len(last.names) != key_id
            or len(last.names) >= MOST_NAMES
        ):
            last = self._packed = PackedNames(key_id, space)
            self.created.append(last)
        last.names.append(name)

    def revive(self, key_id: int, key: K) -> None:
        """A key that was packed at once is unpacked, before the tables have it."""
        self._revived_count += 1
        if key_id >= self.pass_below_id:
            self.revived[key_id] = key
        else:
            self.revived_in_pass[key_id] = key

    def revived_key(self, key_id: int) -> K | None:
        return self.revived.get(key_id) or self.revived_in_pass.get(key_id)

    # -- asking -------------------------------------------------------------------------------

    def is_ahead_of_file(self, key_id: int) -> bool:
        """Whether memory has a newer row of this key than the tables."""
        # (To look into an empty dict costs compiled code an object for the id.)
        return (
            key_id >= self.folded_below_id
            or (bool(self.unfolded) and key_id in self.unfolded)
            or (bool(self.unfolded_in_pass) and key_id in self.unfolded_in_pass)
        )

    def changed_key(self, key_id: int) -> K | None:
        """The key with this id, if it is an older one whose row in the tables is out of date."""
        return self.unfolded.get(key_id) or self.unfolded_in_pass.get(key_id)

    def changed_keys(self) -> list[K]:
        """All older keys whose rows in the tables are out of date; some may be dead."""
        changed = {**self.unfolded_in_pass, **self.unfolded}
        return [key for key_id, key in changed.items() if key_id < self.folded_below_id]

    def is_due(self, dirty_in_fold: int) -> bool:
        """Whether a value that was noted for this pass is not in the tables yet."""
        return dirty_in_fold >= self._first_fold_due

    @property
    def dirty_values(self) -> int:
        """How many strings and elements the next pass would read from memory."""
        return len(self.dirty_strings) + self.dirty_element_count

    @property
    def read_from_id(self) -> int:
        """From this id on, the running pass reads keys from memory, and not from operations."""
        return max(self._created_from_id, self.folded_below_id)

    def created_in_pass(self) -> list[K | PackedNames]:
        """The keys that the running pass reads from memory, except revived ones; some may be
        dead."""
        start = bisect_left(self.created, self.read_from_id, key=_id)
        return self.created[start : bisect_left(self.created, self.pass_below_id, key=_id)]

    # -- a pass -------------------------------------------------------------------------------

    def begin_pass(self, next_id: int) -> None:
        self.unfolded_in_pass, self.unfolded = self.unfolded, {}
        self.strings_in_pass, self.dirty_strings = self.dirty_strings, []
        self.elements_in_pass, self.dirty_elements = self.dirty_elements, []
        self._element_count_in_pass, self.dirty_element_count = self.dirty_element_count, 0
        self.revived_in_pass, self.revived = self.revived, {}
        self._packed = None  # names of this pass and of the next one are apart
        self.next_fold += 1
        self.pass_below_id = next_id
        self._set_whole_from_id()

    def end_pass(self) -> None:
        self.unfolded_in_pass = {}
        self.strings_in_pass = []
        self.elements_in_pass = []
        self.revived_in_pass = {}
        self._first_fold_due = self.next_fold
        self.folded_below_id = self.pass_below_id
        del self.created[: bisect_left(self.created, self.folded_below_id, key=_id)]

    def abort_pass(self) -> None:
        """The pass has failed: the next one writes everything again."""
        self.unfolded = self.unfolded_in_pass | self.unfolded
        self.unfolded_in_pass = {}
        self.dirty_strings = self.strings_in_pass + self.dirty_strings
        self.strings_in_pass = []
        self.dirty_elements = self.elements_in_pass + self.dirty_elements
        self.elements_in_pass = []
        self.dirty_element_count += self._element_count_in_pass
        self.revived = self.revived_in_pass | self.revived
        self.revived_in_pass = {}
        self.pass_below_id = self.folded_below_id
        self._set_whole_from_id()

    def _set_whole_from_id(self) -> None:
        """The next pass reads keys from memory that were created after the running pass began."""
        self.whole_from_id = max(self._created_from_id, self.pass_below_id)
