"""What the server knows about one client, without its socket."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from holdfast.commands.context import Context
from holdfast.commands.table import Command
from holdfast.resp import Reply, encode2, encode3
from holdfast.store.keyspace import Database

if TYPE_CHECKING:
    from holdfast.server.engine import Engine
    from holdfast.server.waiters import Waiter

# Why a session's commands take the longer way through `Engine._admit`.
NEEDS_AUTH, IN_MULTI = 1, 2

REPLIES_ON, REPLIES_OFF, REPLY_SKIP_NEXT, REPLY_SKIPPED = range(4)


class Sink(Protocol):
    """Where replies go once everything they could have seen is on disk."""

    def deliver(self, replies: list[bytes]) -> None: ...

    def close(self) -> None: ...

    @property
    def output_bytes(self) -> int:
        """Bytes accepted and not yet taken by the peer."""
        ...


class Session(Context):
    __slots__ = (
        "address",
        "backlog",
        "closing",
        "created_s",
        "encode",
        "engine",
        "flags",
        "gate",
        "id",
        "is_local",
        "kind",
        "last_active_s",
        "last_command",
        "lib_name",
        "lib_ver",
        "local_address",
        "monitoring",
        "multi",
        "multi_failed",
        "name",
        "out",
        "parked",
        "reply_mode",
        "sink",
        "total_commands",
        "user",
        "waiter",
        "watch_broken",
        "watching",
    )

    def __init__(self, engine: "Engine", sink: Sink, address: str, local_address: str) -> None:
        super().__init__(engine.keyspace, engine.limits, engine.rng)
        self.engine = engine
        self.sink = sink
        self.id = engine.next_session_id()
        self.address = address
        self.local_address = local_address
        self.name = b""
        self.lib_name = self.lib_ver = b""
        self.user = b"default"
        self.kind = "normal"
        self.flags: set[str] = set()
        self.gate = 0
        self.multi: list[tuple[Command, list[bytes]]] | None = None
        self.multi_failed = False
        self.watching: list[tuple[Database, bytes, bool]] = []  # database, key, was it alive
        self.watch_broken = False
        self.monitoring = False
        self.reply_mode = REPLIES_ON
        self.encode: Callable[[Reply], bytes] = encode2
        self.out: list[bytes] = []
        self.waiter: Waiter | None = None
        self.parked = False  # CLIENT PAUSE holds its next command
        self.backlog: deque[list[bytes]] = deque()  # arrived behind a command that waits
        self.closing = False
        self.is_local = True
        self.created_s = self.last_active_s = engine.clock.monotonic_s()
        self.last_command = ""
        self.total_commands = 0

    @property
    def is_waiting(self) -> bool:
        return self.waiter is not None or self.parked

    @property
    def is_woken(self) -> bool:
        return self.waiter is not None  # nothing else of a session runs while it waits

    def use_protocol(self, version: int) -> None:
        self.protocol = version
        self.encode = encode3 if version == 3 else encode2

    def reply(self, value: Reply) -> None:
        """The one answer to a command. It leaves at the end of the turn, or when synced."""
        if self.reply_mode == REPLIES_ON:
            self.send(value)
        elif self.reply_mode == REPLY_SKIP_NEXT:
            self.reply_mode = REPLY_SKIPPED
        elif self.reply_mode == REPLY_SKIPPED:
            self.reply_mode = REPLIES_ON

    def send(self, value: Reply) -> None:
        """Something for the client that is not the answer to a command, or always is sent."""
        out = self.out
        if not out:
            self.engine.turn.add(self)
        out.append(self.encode(value))

    def reset_transaction(self) -> None:
        self.multi = None
        self.multi_failed = False
        self.gate &= ~IN_MULTI
        self.unwatch()

    def unwatch(self) -> None:
        for database, name, _ in self.watching:
            watchers = database.watched.get(name)
            if watchers is not None:
                watchers.discard(self)
                if not watchers:
                    del database.watched[name]
        self.watching.clear()
        self.watch_broken = False
