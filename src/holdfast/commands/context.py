"""What a handler is given and what it may return, beside a plain reply."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.resp import Reply
from holdfast.store.keyspace import Database, Keyspace


class Context:
    """Who calls: as much of the session as a command on data may know."""

    __slots__ = ("db", "keyspace", "limits", "protocol", "rng")

    def __init__(self, keyspace: Keyspace, limits: "Limits", rng: random.Random) -> None:
        self.keyspace = keyspace
        self.db: Database = keyspace.databases[0]
        self.protocol = 2
        self.limits = limits
        self.rng = rng


@dataclass(slots=True)
class Limits:
    """Configuration that handlers look at, one object for all, changed in place by CONFIG SET."""

    proto_max_bulk_len: int = 512 << 20
    blocking_max_keys_per_wait: int = 128
    list_max_listpack_size: int = -2
    maxmemory_policy: str = "noeviction"


@dataclass(slots=True)
class Block:
    """Instead of a reply: wait until one of these keys holds a `value_type`, then ask again.

    Where waiting is not possible (MULTI, scripts) the answer is `on_timeout` at once.
    """

    keys: Sequence[bytes]
    value_type: type
    timeout_s: float  # 0: for ever
    on_timeout: Reply = None


Result = Reply | Block
