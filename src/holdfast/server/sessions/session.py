"""One client, without its socket."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, final

from holdfast.clock import Timer
from holdfast.commands.context import Block, Context
from holdfast.commands.table import Command
from holdfast.errors import CommandError
from holdfast.resp import Reply, Several, encode2, encode3
from holdfast.server.auth.acl import User
from holdfast.server.sessions.out_of_band import NOTHING, Output
from holdfast.store.memory.database import Database

if TYPE_CHECKING:
    from holdfast.server.sessions.session_host import SessionHost

# Modes of a session. In each of these modes, `Admission` checks its commands.
NEEDS_AUTH: Final = 1
IN_MULTI: Final = 2
MONITORING: Final = 4
SUBSCRIBED: Final = 8
TRACKING: Final = 16
RESTRICTED: Final = 32

# Kinds of sessions, by their names in CLIENT LIST TYPE. LINK is another server that follows this
# one, PRIMARY the server that this one follows.
NORMAL, PUBSUB, LINK, PRIMARY = "normal", "pubsub", "replica", "master"

OWN_BYTES = 2048  # approximate memory of a session without its buffers
NAME_BYTES = 48  # approximate memory of a name in a list, without its text

# The next command of a session waits for a collection to be loaded (see loading.py), or has waited
# and not run yet, or neither.
NOTHING_TO_LOAD: Final = 0
IS_LOADING: Final = 1
IS_LOADED: Final = 2

REPLIES_ON: Final = 0
REPLIES_OFF: Final = 1
REPLY_SKIP_NEXT: Final = 2
REPLY_SKIPPED: Final = 3


class Sink(Protocol):
    """Takes replies once every change that they could have seen is on disk."""

    def deliver(self, replies: list[Output]) -> None: ...

    def close(self) -> None: ...

    @property
    def output_bytes(self) -> int:
        """Bytes that the sink has got and the peer has not."""
        ...


class Waiter:
    """A client that waits: its command, the keys for which it waits, and its timers."""

    __slots__ = (
        *("argv", "block", "command", "database", "look_at_s", "look_timer", "names", "session"),
        *("timer", "woken_by"),
    )

    def __init__(
        self, session: "Session", command: Command, argv: list[bytes], block: Block
    ) -> None:
        self.session = session
        self.command = command
        self.argv = argv
        self.block = block
        self.database = session.db
        self.names = tuple(dict.fromkeys(block.keys))
        self.timer: Timer | None = None
        self.look_timer: Timer | None = None  # runs the command again at `look_at_s`
        self.look_at_s = 0.0
        self.woken_by: bytes | None = None


class TurnSchedule:
    """The turn, seen from sessions. It is a base class and no Protocol, because compiled code calls
    its methods faster."""

    def schedule(self) -> None:
        """Let the turn end soon. Where there is no turn, this does nothing."""


@final
class Outgoing:
    """Sessions with output of this turn, in the order in which it leaves. `Turn` empties it."""

    __slots__ = ("_woken", "is_scheduled", "sessions", "turn")

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self._woken = 0  # how many sessions at the front were woken
        self.is_scheduled = False  # the end of the turn is scheduled
        self.turn = TurnSchedule()  # until there is a `Turn`

    def schedule(self) -> None:
        self.turn.schedule()

    def add(self, session: "Session") -> None:
        self.sessions.append(session)
        if not self.is_scheduled:
            self.turn.schedule()

    def put_first(self, session: "Session") -> None:
        """Move a woken session to the front: its replies leave before the replies to the client
        that woke it. The session is the last one of the list, or has been in the list for
        longer."""
        sessions = self.sessions
        if len(sessions) > self._woken and sessions[-1] is session:
            sessions.insert(self._woken, sessions.pop())
            self._woken += 1

    def take(self) -> "list[Session]":
        sessions, self.sessions, self._woken = self.sessions, [], 0
        return sessions


class Session(Context):
    __slots__ = (
        "address",
        "authenticated",
        "backlog",
        "capabilities",
        "closing",
        "created_s",
        "encode",
        "fd",
        "fieldset_bytes",
        "fieldsets",
        "flags",
        "host",
        "id",
        "in_exec",
        "is_local",
        "is_runnable",
        "is_short",
        "kind",
        "last_active_s",
        "last_command",
        "lib_name",
        "lib_ver",
        "load_state",
        "local_address",
        "modes",
        "multi",
        "multi_failed",
        "name",
        "needs_auth_since_s",
        "out",
        "outgoing",
        "parked",
        "reply_mode",
        "sink",
        "user",
        "waiter",
        "watch_broken",
        "watching",
    )

    def __init__(self, host: "SessionHost", sink: Sink, address: str, local_address: str) -> None:
        super().__init__(host.keyspace, host.config, host.rng)
        self.host = host
        self.outgoing = host.outgoing
        self.sink = sink
        self.id = host.next_session_id()
        # (The types are named for modules that mypy sees before this one.)
        self.address: str = address
        self.local_address: str = local_address
        self.name: bytes = b""
        self.lib_name: bytes = b""
        self.lib_ver: bytes = b""
        self.capabilities = ""  # the letters of CLIENT CAPA
        self.user: User = host.default_user
        self.kind = NORMAL
        # The letters of CLIENT LIST that follow from no other attribute.
        self.flags: set[str] = set()
        self.fieldsets: dict[bytes, list[bytes]] = {}  # of HIMPORT
        self.fieldset_bytes = 0  # their approximate memory
        self.fd = -1  # the file descriptor for CLIENT LIST, if there is one
        self.modes = 0
        self.authenticated = True
        self.multi: list[tuple[Command, list[bytes]]] | None = None
        self.multi_failed = False
        self.in_exec = False
        # Database, name, and whether the key existed.
        self.watching: list[tuple[Database, bytes, bool]] = []
        self.watch_broken = False
        self.reply_mode = REPLIES_ON
        self.encode: Callable[[Reply], Output] = encode2
        self.out: list[Output] = []
        self.waiter: Waiter | None = None
        self.parked = False  # its next command is held: by CLIENT PAUSE, or by a load
        self.load_state = NOTHING_TO_LOAD
        self.backlog: deque[list[bytes]] = deque()  # commands that arrived and have not run
        self.is_runnable = False  # it is in the host's queue
        self.is_short = False  # the client sends only a command or two at a time
        self.closing = False
        self.is_local = True
        self.created_s = self.last_active_s = host.clock.monotonic_s()
        self.needs_auth_since_s = self.created_s  # if it has to sign in
        self.last_command = ""

    @property
    def is_waiting(self) -> bool:
        return self.waiter is not None or self.parked

    @property
    def is_woken(self) -> bool:
        return self.waiter is not None  # no other command of a session runs while it waits

    @property
    def woken_by(self) -> bytes | None:
        return None if self.waiter is None else self.waiter.woken_by

    def may_read_all_keys(self, argv: list[bytes]) -> bool:
        user = self.user
        return user.is_unrestricted or user.may_read_all_keys(
            self.host.find_command(argv), argv, self.db.index
        )

    @property
    def monitoring(self) -> bool:
        return bool(self.modes & MONITORING)

    @property
    def age_s(self) -> int:
        return int(self.host.clock.monotonic_s() - self.created_s)

    @property
    def idle_s(self) -> int:
        return int(self.host.clock.monotonic_s() - self.last_active_s)

    def has_flag(self, command: Command, *flags: str) -> bool:
        """Whether the command has one of these flags; EXEC has the flags of the queued commands."""
        if not command.flags.isdisjoint(flags):
            return True
        return command.name == "exec" and any(
            not queued.flags.isdisjoint(flags) for queued, _ in self.multi or ()
        )

    def use_protocol(self, version: int) -> None:
        self.protocol = version
        if self.encode in (encode2, encode3):  # a session in this process takes values, not bytes
            self.encode = encode3 if version == 3 else encode2

    def reply(self, value: Reply) -> None:
        """Send the reply to a command. It leaves at the end of the turn, or after the sync."""
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
        """Send a value that is no reply to a command, or a reply that CLIENT REPLY does not
        suppress."""
        out = self.out
        if not out:
            self.outgoing.add(self)
        out.append(self.encode(value))

    def push(self, items: list[Output], nbytes: int) -> None:
        """Send output that is no reply: encoded items, and their bytes together; see `Shared`."""
        if not self.closing:
            out = self.out
            if not out:
                self.outgoing.add(self)
            out += items

    def deliver(self, replies: list[Output]) -> None:
        """Send these replies: every change that they could have seen is on disk."""
        self.sink.deliver(replies)

    def skip_this_reply(self) -> None:
        """Send no reply to the running command. In EXEC its place in the array is null."""
        if self.reply_mode == REPLIES_ON and not self.in_exec:
            self.reply_mode = REPLY_SKIPPED

    def abort(self) -> None:
        """Close at once; unsent output is lost."""
        self.host.disconnected(self)
        self.sink.close()

    def hang_up(self) -> None:
        """Close when all output so far and the reply to the present command are delivered."""
        self.closing = True
        if self.reply_mode != REPLIES_ON and not self.out:
            self.outgoing.add(self)  # no reply follows whose delivery would close the connection
            self.out.append(NOTHING)

    def proceed(self) -> bool:
        """Run the session's share of commands. Returns whether more of them could run."""
        self.host.work_off(self)
        return bool(self.backlog) and not (self.is_waiting or self.closing)

    def look_after(self) -> None:
        """Check limits of time. Called about once a second."""

    def limits_changed(self) -> None:
        """Apply other limits, after CONFIG SET or because the client has signed in."""

    # -- transactions -------------------------------------------------------------------------

    def reset_transaction(self) -> None:
        self.multi = None
        self.multi_failed = False
        self.modes &= ~IN_MULTI
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

    # -- sizes --------------------------------------------------------------------------------

    @property
    def input_bytes(self) -> int:
        """Bytes of commands that arrived and have not run."""
        return 0

    @property
    def output_bytes(self) -> int:
        """Bytes of replies that the client has not received."""
        return self.sink.output_bytes

    @property
    def argv_bytes(self) -> int:
        """Memory of the command with which the client waits."""
        return sum(map(len, self.waiter.argv)) if self.waiter is not None else 0

    @property
    def multi_bytes(self) -> int:
        """Memory of the queued commands of its transaction."""
        return sum(len(arg) for _, argv in self.multi or () for arg in argv)

    @property
    def memory_bytes(self) -> int:
        """The approximate memory of the session."""
        bytes_of_commands = self.input_bytes + self.argv_bytes + self.multi_bytes
        return OWN_BYTES + bytes_of_commands + self.fieldset_bytes + self.output_bytes

    def keep_fieldset(self, name: bytes, fields: list[bytes]) -> None:
        self.drop_fieldset(name)
        self.fieldsets[name] = fields
        self.fieldset_bytes += _bytes_of_fieldset(name, fields)

    def drop_fieldset(self, name: bytes) -> bool:
        """Drop a fieldset. Returns whether it existed."""
        fields = self.fieldsets.pop(name, None)
        if fields is None:
            return False
        self.fieldset_bytes -= _bytes_of_fieldset(name, fields)
        return True

    def drop_fieldsets(self) -> None:
        self.fieldsets.clear()
        self.fieldset_bytes = 0

    @property
    def may_be_evicted(self) -> bool:
        return False  # it has no buffers that would be freed


def _bytes_of_fieldset(name: bytes, fields: list[bytes]) -> int:
    return NAME_BYTES * (1 + len(fields)) + len(name) + sum(map(len, fields))


def checked_attribute(value: bytes, what: bytes) -> bytes:
    """The value, if CLIENT LIST can show it: visible ASCII without blanks. Raises CommandError."""
    if all(ord("!") <= byte <= ord("~") for byte in value):
        return value
    raise CommandError(b"ERR %s cannot contain spaces, newlines or special characters." % what)


def checked_name(name: bytes) -> bytes:
    return checked_attribute(name, b"Client names")
