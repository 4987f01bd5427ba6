"""The context that a handler receives, and `Block`, which it may return instead of a reply."""

import random
from collections.abc import Sequence
from typing import Protocol, final

from holdfast.errors import WRONG_TYPE, CommandError
from holdfast.resp import NULL_ARRAY, Reply
from holdfast.store.memory.database import Database, Kind
from holdfast.store.memory.key import Key
from holdfast.store.memory.keyspace import Keyspace


class Context:
    """The part of the caller's session that a command on data may use."""

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
        """Whether the command has waited and now runs again."""
        return False

    @property
    def woken_by(self) -> bytes | None:
        """The key that ended the wait, or None."""
        return None

    def may_read_all_keys(self, argv: list[bytes]) -> bool:
        """Whether the command may read keys that its arguments do not name."""
        return True

    def overflows(self, nbytes: int) -> bool:
        """Whether this much more output is too much. If so, the client is closed, and the caller
        must not produce the output."""
        return False

    def first_as(self, names: Sequence[bytes], kind: type[Kind]) -> tuple[Key, Kind] | None:
        """The first of these keys that exists. A key of another type raises WRONG_TYPE. But a
        command that has waited skips such a key: it may have got its type during the wait."""
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
        """Raise an error if these are too many keys to wait for. The command checks this even if it
        need not wait, so the error does not depend on the data."""
        most = self.limits.blocking_max_keys_per_wait
        if len(names) > most and not self.is_woken:
            raise CommandError(
                f"ERR too many keys to wait for, at most {most} are allowed"
                " (blocking-max-keys-per-wait)"
            )


class Limits(Protocol):
    """The current values of the configuration parameters that handlers use."""

    proto_max_bulk_len: int
    blocking_max_keys_per_wait: int
    hash_max_listpack_entries: int
    hash_max_listpack_value: int
    set_max_intset_entries: int
    hll_sparse_max_bytes: int
    zset_max_listpack_entries: int
    zset_max_listpack_value: int


@final
class Block:
    """A handler returns this instead of a reply: wait until one of these keys holds a `value_type`,
    then run the command again."""

    __slots__ = (
        *("at_each_change", "even_if_gone", "keys", "look_again_s", "on_timeout", "retry_argv"),
        *("rivals", "timeout_s", "value_type", "when_denied"),
    )

    def __init__(
        self,
        keys: Sequence[bytes],
        value_type: type,
        timeout_s: float,  # 0: for ever
        on_timeout: Reply = NULL_ARRAY,
        when_denied: Reply = NULL_ARRAY,  # the reply where no command may wait: MULTI, scripts
        retry_argv: list[bytes] | None = None,  # the command to run then, if it is another one
        even_if_gone: bool = False,  # run also when a key is removed or changes its type
        rivals: object = None,
        at_each_change: bool = False,  # run also when a key that held a value changes
        look_again_s: float | None = None,  # run also after this time, although no key has changed
    ) -> None:
        """Clients that wait for a key with the same `rivals` compete for the same entries: if one
        of them gets nothing, the others are not tried."""
        self.keys = keys
        self.value_type = value_type
        self.timeout_s = timeout_s
        self.on_timeout = on_timeout
        self.when_denied = when_denied
        self.retry_argv = retry_argv
        self.even_if_gone = even_if_gone
        self.rivals = rivals
        self.at_each_change = at_each_change
        self.look_again_s = look_again_s


Result = Reply | Block
