"""What the server knows about one client, without its socket."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.commands.context import Context
from holdfast.commands.table import Command
from holdfast.errors import CommandError
from holdfast.resp import Reply, Several, encode2, encode3
from holdfast.server.unasked import NOTHING, Output
from holdfast.store.database import Database

if TYPE_CHECKING:
    from holdfast.server.engine import Engine
    from holdfast.server.waiters import Waiter

# Why a session's commands take the longer way, through `admit`.
NEEDS_AUTH: Final = 1
IN_MULTI: Final = 2
MONITORING: Final = 4
SUBSCRIBED: Final = 8
TRACKING: Final = 16
RESTRICTED: Final = 32

# Kinds of sessions, as CLIENT LIST TYPE has them; the third is another server, which follows us.
NORMAL, PUBSUB, LINK = "normal", "pubsub", "replica"

OWN_BYTES = 2048  # what a session takes by itself, about

REPLIES_ON: Final = 0
REPLIES_OFF: Final = 1
REPLY_SKIP_NEXT: Final = 2
REPLY_SKIPPED: Final = 3


class Sink(Protocol):
    """Where replies go once everything they could have seen is on disk."""

    def deliver(self, replies: list[Output]) -> None: ...

    def close(self) -> None: ...

    @property
    def output_bytes(self) -> int:
        """Bytes accepted and not yet taken by the peer."""
        ...


class Session(Context):
    __slots__ = (
        "address",
        "authenticated",
        "backlog",
        "closing",
        "created_s",
        "encode",
        "engine",
        "fd",
        "flags",
        "gate",
        "id",
        "in_exec",
        "is_local",
        "is_runnable",
        "kind",
        "last_active_s",
        "last_command",
        "lib_name",
        "lib_ver",
        "local_address",
        "multi",
        "multi_failed",
        "name",
        "needs_auth_since_s",
        "out",
        "parked",
        "reply_mode",
        "sink",
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
        self.user = engine.users.default
        self.kind = NORMAL
        self.flags: set[str] = set()  # those letters of CLIENT LIST that nothing else tells
        self.fd = -1  # for CLIENT LIST, where there is one
        self.gate = 0
        self.authenticated = True
        self.multi: list[tuple[Command, list[bytes]]] | None = None
        self.multi_failed = False
        self.in_exec = False
        self.watching: list[tuple[Database, bytes, bool]] = []  # database, key, was it alive
        self.watch_broken = False
        self.reply_mode = REPLIES_ON
        self.encode: Callable[[Reply], Output] = encode2
        self.out: list[Output] = []
        self.waiter: Waiter | None = None
        self.parked = False  # CLIENT PAUSE holds its next command
        self.backlog: deque[list[bytes]] = deque()  # commands that arrived and have not run
        self.is_runnable = False  # it is in the engine's queue
        self.closing = False
        self.is_local = True
        self.created_s = self.last_active_s = engine.clock.monotonic_s()
        self.needs_auth_since_s = self.created_s  # if it does
        self.last_command = ""

    @property
    def is_waiting(self) -> bool:
        return self.waiter is not None or self.parked

    @property
    def is_woken(self) -> bool:
        return self.waiter is not None  # nothing else of a session runs while it waits

    @property
    def woken_by(self) -> bytes | None:
        return None if self.waiter is None else self.waiter.woken_by

    def may_read_all_keys(self, argv: list[bytes]) -> bool:
        user = self.user
        return user.is_unrestricted or user.may_read_all_keys(
            self.engine.commands.find(argv)[0], argv
        )

    @property
    def monitoring(self) -> bool:
        return bool(self.gate & MONITORING)

    @property
    def age_s(self) -> int:
        return int(self.engine.clock.monotonic_s() - self.created_s)

    def has_flag(self, command: Command, *flags: str) -> bool:
        """Whether the command has one of these flags; EXEC has those of what was queued."""
        if not command.flags.isdisjoint(flags):
            return True
        return command.name == "exec" and any(
            not queued.flags.isdisjoint(flags) for queued, _ in self.multi or ()
        )

    def use_protocol(self, version: int) -> None:
        self.protocol = version
        if self.encode in (encode2, encode3):  # else replies are taken as they are
            self.encode = encode3 if version == 3 else encode2

    def reply(self, value: Reply) -> None:
        """The one answer to a command. It leaves at the end of the turn, or when synced."""
        if self.reply_mode == REPLIES_ON:
            self.send(value)
            return
        if type(value) is Several:
            self.send(value)
        if self.reply_mode == REPLY_SKIP_NEXT:
            self.reply_mode = REPLY_SKIPPED
        elif self.reply_mode == REPLY_SKIPPED:
            self.reply_mode = REPLIES_ON

    def send(self, value: Reply) -> None:
        """Something for the client that is not the answer to a command, or always is sent."""
        out = self.out
        if not out:
            self.engine.turn.add(self)
        out.append(self.encode(value))

    def push(self, items: list[Output], nbytes: int) -> None:
        """Things that answer no command, encoded already, so many bytes; see `Shared`."""
        if not self.closing:
            out = self.out
            if not out:
                self.engine.turn.add(self)
            out += items

    def deliver(self, replies: list[Output]) -> None:
        """Everything that these could have seen is on disk."""
        self.sink.deliver(replies)

    def skip_this_reply(self) -> None:
        """For the rare command that answers nothing."""
        if self.reply_mode == REPLIES_ON:
            self.reply_mode = REPLY_SKIPPED

    def overflows(self, nbytes: int) -> bool:
        """Whether so much more output is too much. Then the client is gone: do not produce it."""
        return False

    def abort(self) -> None:
        """Hang up at once, whatever has not been sent."""
        self.engine.disconnected(self)
        self.sink.close()

    def hang_up(self) -> None:
        """Close, once everything so far and the present answer are delivered."""
        self.closing = True
        if self.reply_mode != REPLIES_ON and not self.out:
            self.engine.turn.add(self)  # there will be no answer whose delivery closes
            self.out.append(NOTHING)

    def proceed(self) -> bool:
        """Run the session's share of commands. Returns whether more of them could run."""
        self.engine.work_off(self)
        return bool(self.backlog) and not (self.is_waiting or self.closing)

    def look_after(self) -> None:
        """Called every second or so, for those whom time does something to."""

    def limits_changed(self) -> None:
        """What the client may send or be sent is another now: by CONFIG SET, or because it has
        signed in."""

    # -- transactions -------------------------------------------------------------------------

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

    # -- for people ---------------------------------------------------------------------------

    @property
    def input_bytes(self) -> int:
        """Bytes of commands that arrived and have not run."""
        return 0

    @property
    def output_bytes(self) -> int:
        """Bytes of replies that the client has not got."""
        return self.sink.output_bytes

    @property
    def argv_bytes(self) -> int:
        """Of the command that it waits in."""
        return sum(map(len, self.waiter.argv)) if self.waiter is not None else 0

    @property
    def multi_bytes(self) -> int:
        """Of the commands of its transaction."""
        return sum(len(arg) for _, argv in self.multi or () for arg in argv)

    @property
    def memory_bytes(self) -> int:
        """What it takes of memory, about."""
        bytes_of_commands = self.input_bytes + self.argv_bytes + self.multi_bytes
        return OWN_BYTES + bytes_of_commands + self.output_bytes

    @property
    def may_be_evicted(self) -> bool:
        return False  # there is nothing to gain

    def describe(self) -> bytes:
        """The line of CLIENT LIST, without its end."""
        output_bytes = self.output_bytes
        pubsub, tracker = self.engine.pubsub, self.engine.tracking.get(self)
        fields: dict[str, object] = {
            "id": self.id,
            "addr": self.address,
            "laddr": self.local_address,
            "fd": self.fd,
            "name": self.name.decode(),
            "age": self.age_s,
            "idle": int(self.engine.clock.monotonic_s() - self.last_active_s),
            "flags": self._flag_letters() or "N",
            "db": self.db.index,
            "sub": pubsub.channels.count_of(self),
            "psub": pubsub.patterns.count_of(self),
            "ssub": pubsub.shards.count_of(self),
            "multi": -1 if self.multi is None else len(self.multi),
            "qbuf": self.input_bytes,
            "qbuf-free": 0,
            "argv-mem": self.argv_bytes,
            "multi-mem": self.multi_bytes,
            "rbs": 0,
            "rbp": 0,
            "obl": 0,
            "oll": len(self.out),
            "omem": output_bytes,
            "tot-mem": self.memory_bytes,
            "events": "rw" if self.sink.output_bytes else "r",  # what the socket did not take
            "cmd": self.last_command or "NULL",
            "user": self.user.name.decode("utf-8", "replace"),
            "redir": -1 if tracker is None else tracker.redirect,
            "resp": self.protocol,
            "lib-name": self.lib_name.decode(),
            "lib-ver": self.lib_ver.decode(),
        }
        return " ".join([f"{name}={value}" for name, value in fields.items()]).encode()

    def _flag_letters(self) -> str:
        tracker = self.engine.tracking.get(self)
        states = {
            "O": self.monitoring,
            "P": self.gate & SUBSCRIBED,
            "x": self.multi is not None,
            "b": self.is_waiting,
            "t": tracker is not None,
            "R": tracker is not None and tracker.is_broken,
            "B": tracker is not None and tracker.bcast,
            "d": self.watch_broken,
            "c": self.closing,
        }
        return "".join([letter for letter, is_so in states.items() if is_so] + sorted(self.flags))


def checked_attribute(value: bytes, what: bytes) -> bytes:
    """A name or the like, as CLIENT LIST can show it: visible ASCII without blanks."""
    if all(ord("!") <= byte <= ord("~") for byte in value):
        return value
    raise CommandError(b"ERR %s cannot contain spaces, newlines or special characters." % what)


def checked_name(name: bytes) -> bytes:
    return checked_attribute(name, b"Client names")
