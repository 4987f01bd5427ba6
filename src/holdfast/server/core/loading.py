"""Commands that wait until large collections are in memory (decision 24).

A command that touches a large cold collection ends with NotLoadedError before it has changed
anything. Its session is held, and each turn loads one share of the collection. Then the session
continues, and the same command runs again: there is no second code path.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final, final

from holdfast.commands.table import Command
from holdfast.server.core.blocking import Blocking
from holdfast.server.sessions.session import IS_LOADED, IS_LOADING, NOTHING_TO_LOAD, Session
from holdfast.server.sessions.session_host import SessionHost
from holdfast.store.file.opening import FileError
from holdfast.store.memory.database import Database
from holdfast.store.memory.keyspace import NEVER
from holdfast.store.memory.loads import Load, NotLoadedError

log = logging.getLogger(__name__)

LOAD_NS: Final = 1_000_000  # in a turn, for all loads: as long as the share of one client
# How often a command may wait. After that it loads its collections at once: they are replaced all
# the time, or the command finds more of them each time that it runs, or the file cannot be read.
MOST_WAITS: Final = 3


@final
class LoadWait:
    """The loads for which a session waits, or for which it has waited and which it has not used
    yet."""

    __slots__ = ("loads", "waits")

    def __init__(self) -> None:
        self.loads: dict[Load, None] = {}
        self.waits = 0


@final
class Loading:
    def __init__(
        self,
        host: SessionHost,
        blocking: Blocking,
        take_back: Callable[[Exception], object],
        now_ns: Callable[[], int],
    ) -> None:
        """`take_back` loads memory from the file again, after an error."""
        self._host = host
        self._blocking = blocking
        self._take_back = take_back
        self._now_ns = now_ns
        self._waiting: dict[Session, LoadWait] = {}  # in the order in which they came
        self._woken: dict[Session, LoadWait] = {}  # their commands can run, and have not run yet

    @property
    def is_busy(self) -> bool:
        """Whether `run_share` has something to do."""
        return bool(self._waiting or self._host.keyspace.loads.pending)

    # -- beginning to wait --------------------------------------------------------------------

    def hold(
        self, session: Session, command: Command, argv: list[bytes], loads: list[Load]
    ) -> bool:
        """Let a command wait for these keys and for all its other keys. False if it has waited so
        often that it must load at once."""
        held = self._woken.get(session)
        if held is None:
            held = LoadWait()
        elif held.waits == MOST_WAITS:
            return False
        else:
            del self._woken[session]
        self._waiting[session] = held
        held.waits += 1
        try:
            loads = loads + self._needed(session.db, _key_names(command, argv))
        except FileError:
            pass  # the command will meet the same error
        for load in loads:
            if load not in held.loads and not load.is_over:
                held.loads[load] = None
                load.users += 1
        session.parked = True
        session.load_state = IS_LOADING
        session.backlog.appendleft(argv)
        self._host.outgoing.schedule()
        return True

    def has_all(self, database: Database) -> bool:
        """Whether memory has all keys of a database, so that nothing is required."""
        if database.space.needs_file:
            return False
        self._host.keyspace.may_wait_at = NEVER
        return True

    def require(self, database: Database, names: Iterable[bytes]) -> None:
        """Raise NotLoadedError unless these keys are in memory. This is for a command that runs
        others, such as EXEC. Other keys that they need are loaded at once; so are all keys if the
        command may not wait again."""
        if self._host.keyspace.may_wait_at == NEVER:
            return
        loads = self._needed(database, names)
        if loads:
            raise NotLoadedError(loads)
        self._host.keyspace.may_wait_at = NEVER

    def require_queued(self, session: Session, queued: list[tuple[Command, list[bytes]]]) -> None:
        """`require` the keys of all commands of a transaction."""
        keyspace, database = self._host.keyspace, session.db
        if keyspace.may_wait_at == NEVER:
            return
        loads: list[Load] = []
        for command, argv in queued:
            if command.name == "select":
                database = _selected(keyspace.databases, argv) or database
            elif database.space.needs_file and command.keys:
                loads += self._needed(database, _key_names(command, argv))
        if loads:
            raise NotLoadedError(loads)
        keyspace.may_wait_at = NEVER

    def _needed(self, database: Database, names: Iterable[bytes]) -> list[Load]:
        """The loads of those keys that are large. Small ones are loaded here, as long as all of
        them take no longer than a share."""
        keyspace, space = self._host.keyspace, database.space
        needed: list[Load] = []
        if not space.needs_file:
            return needed
        until_ns = self._now_ns() + LOAD_NS
        for name in names:
            if name in space.keys:
                continue
            load = keyspace.begin_load(space, name)
            if load is None:
                continue
            if load.value is None and self._now_ns() < until_ns:
                keyspace.loads.step(load)
            if not load.is_over:
                needed.append(load)
        return needed

    # -- loading ------------------------------------------------------------------------------

    def run_share(self) -> None:
        """Load for as long as a share takes; called once in each turn. Commands whose collections
        are in memory, or gone, can then run."""
        loads = self._host.keyspace.loads
        try:
            loads.run(self._now_ns, self._now_ns() + LOAD_NS)
        except FileError as error:
            self._take_back(error)
        except Exception as error:  # a bug must not take the server down
            log.error("a collection cannot be loaded", exc_info=error)
        if self._host.keyspace.ready:
            self._blocking.serve_ready()  # before commands that have waited for a shorter time
        for session, held in list(self._waiting.items()):
            if all(load.is_over for load in held.loads):
                self._woken[session] = self._waiting.pop(session)
                session.parked = False
                session.load_state = IS_LOADED
                self._host.make_runnable(session)

    # -- no longer waiting --------------------------------------------------------------------

    def ran(self, session: Session) -> None:
        """The command that waited has run: its keys may be evicted again."""
        session.load_state = NOTHING_TO_LOAD
        self.forget(session)

    def forget(self, session: Session) -> None:
        """Release the loads of a session that has left or does not need them any more."""
        held = self._waiting.pop(session, None) or self._woken.pop(session, None)
        if held is not None:
            for load in held.loads:
                self._host.keyspace.loads.release(load)

    def stop(self) -> None:
        """Drop all loads, because the server ends."""
        for session in [*self._waiting, *self._woken]:
            self.forget(session)
        self._host.keyspace.loads.clear()


def _key_names(command: Command, argv: list[bytes]) -> list[bytes]:
    """The keys whose elements a command may need. Empty if the argv has fewer keys than it says."""
    if command.needs_only_rows:
        return []
    try:
        return command.key_names(argv, without="OW")
    except IndexError:
        return []


def _selected(databases: list[Database], argv: list[bytes]) -> Database | None:
    index = int(argv[1]) if argv[1].isdigit() and len(argv[1]) < 9 else len(databases)
    return databases[index] if index < len(databases) else None
