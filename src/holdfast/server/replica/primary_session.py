"""The primary, as a client of its replica: it sends commands, and gets acknowledgements.

Its commands run in turns with those of other clients, and may wait for a large collection as other
commands may. After each share of commands, the position is noted in the batch that has their
changes. Inside of a transaction it is not noted: a replica that dies there has no change of the
transaction, and gets all of it again.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.errors import CommandError
from holdfast.psync.events import Command, Commands
from holdfast.psync.follower import acknowledgement
from holdfast.psync.open_commands import check_open
from holdfast.resp import Reply
from holdfast.server.auth.acl import User
from holdfast.server.core.engine import SHARE_NS, Engine
from holdfast.server.replica.position import Position
from holdfast.server.sessions.out_of_band import Published
from holdfast.server.sessions.session import IS_LOADED, PRIMARY, REPLIES_OFF, Session, Sink

log = logging.getLogger(__name__)

LOGGED_ERRORS: Final = 10  # of a link; the others are counted
OWN_ARGUMENTS: Final = 2  # a queued command takes as much memory beside its arguments as two more
RULES: Final = [b"on", b"nopass", b"allkeys", b"allchannels", b"allcommands"]


class HeldBytes:
    """Bytes of a stream, in the pieces that arrived. To take the first bytes copies no others."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._taken = 0  # bytes of the first piece
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, data: bytes) -> None:
        if data:
            self._pieces.append(data)
            self._size += len(data)

    def take(self, count: int) -> list[bytes]:
        """Take the first `count` bytes, in pieces."""
        assert count <= self._size
        self._size -= count
        taken: list[bytes] = []
        while count:
            piece = self._pieces[0]
            end = self._taken + count
            if end < len(piece):
                taken.append(piece[self._taken : end])
                self._taken = end
                break
            count = end - len(piece)
            taken.append(piece[self._taken :] if self._taken else piece)
            self._pieces.popleft()
            self._taken = 0
        return taken


class PrimarySession(Session):
    def __init__(
        self,
        engine: Engine,
        sink: Sink,
        address: str,
        local_address: str,
        position: Position,
        now_ns: Callable[[], int],
    ) -> None:
        super().__init__(engine, sink, address, local_address)
        self._engine = engine
        self._now_ns = now_ns
        self._commands: deque[Command] = deque()
        self._held = HeldBytes()  # of the stream, from the noted offset on
        self._replication_id = position.replication_id
        self.received = position.offset
        self._applied = self.noted = position.offset
        self._queued_arguments = 0  # of the open transaction
        self.errors = 0
        self._wants_acknowledgement = False
        self.on_room: Callable[[], None] | None = None  # called when commands have run
        self.kind = PRIMARY
        self.flags.add("M")
        self.reply_mode = REPLIES_OFF
        self.db = engine.keyspace.databases[position.database]

    def sign_in(self) -> None:
        """The rules for clients do not apply."""
        self.user = User(b"default", all_channels=True).changed(RULES, all_channels=True)
        self.authenticated = True
        self._engine.users.look_again(self)

    @property
    def input_bytes(self) -> int:
        return len(self._held)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of commands that have not run. Commands of an open transaction do not count:
        the link must read on to its EXEC, however large the transaction is."""
        return len(self._held) if self._commands else 0

    def take(self, received: Commands) -> None:
        """Commands that the primary has sent. They run soon. Raises TooLargeError."""
        if self.multi is not None:
            check_open(len(self._held), self._queued_arguments, "a transaction of the primary")
        self._held.add(received.data)
        self.received += len(received.data)
        if received.commands:
            self._commands.extend(received.commands)
            self._engine.make_runnable(self)

    # -- running ------------------------------------------------------------------------------

    def proceed(self) -> bool:
        keyspace = self._engine.keyspace
        keyspace.obeys_primary = True
        try:
            self._run_share()
        finally:
            keyspace.obeys_primary = False
        if self.on_room is not None:
            self.on_room()
        return bool(self._commands) and not (self.is_waiting or self.closing)

    def _run_share(self) -> None:
        engine, commands = self._engine, self._commands
        now_ns = self._now_ns()
        until_ns = now_ns + SHARE_NS
        while commands and not (self.is_waiting or self.closing):
            command = commands[0]
            self.backlog.clear()  # a command that has waited stands there, too
            self._run(command.argv)
            if self.parked:
                break
            commands.popleft()
            if self.multi is None:
                self._applied = command.offset
                self._queued_arguments = 0
            else:  # nothing of its transaction has been done yet
                self._queued_arguments += len(command.argv) + OWN_ARGUMENTS
            if self.load_state == IS_LOADED:
                engine.loading.ran(self)
            if self._now_ns() >= until_ns:
                break
        self._note()
        if self._wants_acknowledgement:
            self._wants_acknowledgement = False
            self.acknowledge()

    def _run(self, argv: list[bytes]) -> None:
        name = argv[0].upper()
        if name == b"REPLCONF":
            self._wants_acknowledgement = True  # GETACK
        elif name != b"PING":
            self._engine.execute(self, argv)

    def _note(self) -> None:
        """Note the position, in the batch that has all changes up to there."""
        count = self._applied - self.noted
        if not count or self.closing:
            return
        self.noted = self._applied
        for data in self._held.take(count):
            self._engine.primary.pass_on(data)
        position = Position(self._replication_id, self.noted, self.db.index)
        self._engine.keyspace.set_position(position.pack())

    def acknowledge(self) -> None:
        """Tell the primary how much of the stream this server has. It is sent when all of that is
        on disk."""
        is_on_disk = self._engine.config.appendfsync == "always"
        data = acknowledgement(self.noted, is_on_disk=is_on_disk)
        self.push([Published(data)], len(data))

    # -- replies, which are dropped: a primary reads none -------------------------------------

    def reply(self, value: Reply) -> None:
        if isinstance(value, CommandError):
            self._failed(value)
        elif isinstance(value, list):
            for part in value:
                if isinstance(part, CommandError):
                    self._failed(part)

    def _failed(self, error: CommandError) -> None:
        """The primary has done it, and this server cannot: the two differ from now on."""
        self.errors += 1
        if self.errors <= LOGGED_ERRORS:
            argv = self._commands[0].argv
            name = argv[0].decode("latin-1")
            log.error("%s of the primary cannot be done here: %s", name, error)
