"""What a handler is given and what it may return, beside a plain reply."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

from holdfast.errors import WRONG_TYPE, CommandError
from holdfast.resp import NULL_ARRAY, Reply
from holdfast.store.database import Database, Kind
from holdfast.store.keys import Key
from holdfast.store.keyspace import Keyspace


class Context:
    """Who calls: as much of the session as a command on data may know."""

    __slots__ = ("db", "keyspace", "limits", "protocol", "rng")

    def __init__(self, keyspace: Keyspace, limits: "Limits", rng: random.Random) -> None:
        self.keyspace = keyspace
        self.db: Database = keyspace.databases[0]
        self.protocol = 2
        self.limits = limits
        self.rng = rng

    @property
    def is_script(self) -> bool:
        return False

    @property
    def is_woken(self) -> bool:
        """Whether the command waited and is now tried again."""
        return False

    @property
    def woken_by(self) -> bytes | None:
        """And for the sake of which key."""
        return None

    def may_read_all_keys(self, argv: list[bytes]) -> bool:
        """Whether the command may look at keys that its arguments do not name."""
        return True

    def first_as(self, names: Sequence[bytes], kind: type[Kind]) -> tuple[Key, Kind] | None:
        """The first of these keys that is there. Another type is an error, but not to a client
        that waits: a key that became something else meanwhile is as good as missing."""
        for name in names:
            key = self.db.find(name)
            if key is not None:
                value = key.value
                if isinstance(value, kind):
                    return key, value
                if not self.is_woken:
                    raise WRONG_TYPE
        return None

    def check_waitable(self, names: Sequence[bytes]) -> None:
        """Whether or not it will come to waiting, so that nobody is surprised when it does."""
        most = self.limits.blocking_max_keys_per_wait
        if len(names) > most and not self.is_woken:
            raise CommandError(
                f"ERR too many keys to wait for, at most {most} are allowed"
                " (blocking-max-keys-per-wait)"
            )


class Limits(Protocol):
    """What handlers may know of the configuration, always up to date."""

    proto_max_bulk_len: int
    blocking_max_keys_per_wait: int
    list_max_listpack_size: int
    hash_max_listpack_entries: int
    hash_max_listpack_value: int
    set_max_intset_entries: int
    hll_sparse_max_bytes: int
    zset_max_listpack_entries: int
    zset_max_listpack_value: int


@final
@dataclass(slots=True)
class Block:
    """Instead of a reply: wait until one of these keys holds a `value_type`, then ask again."""

    keys: Sequence[bytes]
    value_type: type
    timeout_s: float  # 0: for ever
    on_timeout: Reply = NULL_ARRAY
    when_denied: Reply = NULL_ARRAY  # at once, where nobody may wait: MULTI, scripts
    retry_argv: list[bytes] | None = None  # what to ask then, if not the same
    even_if_gone: bool = False  # ask also when a key goes away, or becomes something else
    # Waiters for a key who share this get nothing when one of them gets nothing.
    rivals: bytes | None = None


Result = Reply | Block
