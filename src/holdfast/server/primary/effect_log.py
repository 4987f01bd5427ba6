"""The effects of the commands of a batch, in order, until the batch is committed.

`Invoker` calls handlers through `run` while there are replicas. propagation.py has the effects of
each command. The commands of a transaction or a script are sent as one transaction; times of fields
cut it into several, because some replicas do not know their commands. The effects of a script that
failed are dropped, because its changes are undone.
"""

from typing import Final, final

from holdfast.commands.context import Block, Result
from holdfast.commands.table import Command
from holdfast.errors import CommandError
from holdfast.resp import encode2
from holdfast.server.primary.propagation import (
    ALWAYS,
    EFFECTS,
    OUT_OF_TRANSACTIONS,
    TRANSACTIONS,
    Argv,
)
from holdfast.server.sessions.session import Session
from holdfast.store.memory.keyspace import Keyspace

NO_DATABASE: Final = -1
MULTI: Final = encode2((b"MULTI",))
EXEC: Final = encode2((b"EXEC",))
NAME_BYTES: Final = 40  # enough for the count, the length and the name of a command, encoded


@final
class EffectLog:
    """Effects have consecutive numbers. `_first` is the number of the first one kept here.

    They are encoded at once: the argv is in the processor's caches then, and the garbage collector
    does not visit bytes.
    """

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._effects: list[bytes] = []
        self._databases: list[int] = []  # of each effect
        self._first = 0
        self._open: int | None = None  # the number of the first effect of the open transaction
        self._database = NO_DATABASE  # the one that replicas have selected

    def run(self, session: Session, command: Command, argv: list[bytes]) -> Result:
        """Call the handler, and note its effects."""
        if command.name in TRANSACTIONS:
            return self._run_all(session, command, argv)
        if not command.is_write and "may_replicate" not in command.flags:
            return command.handler(session, argv)
        keyspace, database = self._keyspace, session.db.index
        dirty = keyspace.dirty
        result = command.handler(session, argv)
        is_changed = keyspace.dirty != dirty or command.name in ALWAYS
        if is_changed and not isinstance(result, (Block, CommandError)):
            effect = EFFECTS.get(command.name)
            if effect is None:
                self._note(database, argv)
            else:
                for sent in effect(session, argv, result):
                    self._note(database, sent)
        return result

    def _note(self, database: int, argv: Argv) -> None:
        self._effects.append(encode2(tuple(argv)))
        self._databases.append(database)

    def _run_all(self, session: Session, command: Command, argv: list[bytes]) -> Result:
        """A script or EXEC. A script may run inside of EXEC."""
        start, dirty = self._end, self._keyspace.dirty
        is_outer = self._open is None
        if is_outer:
            self._open = start
        try:
            result = command.handler(session, argv)
        except CommandError:
            if self._keyspace.dirty == dirty:  # the script has failed, and its changes are undone
                del self._effects[start - self._first :]
                del self._databases[start - self._first :]
            raise
        finally:
            if is_outer:
                self._open = None
                self._join(start - self._first)
        return result

    def _join(self, at: int) -> None:
        """Make one transaction of the effects from here on, unless there is one only. A command
        that some replicas do not know stays between two transactions: for an unknown command in a
        transaction, they would refuse all of it."""
        end = len(self._effects)
        if end <= at + 1:
            return
        joined, databases = self._effects[at:], self._databases[at:]
        del self._effects[at:], self._databases[at:]
        begin = 0
        for cut in [*_cuts(joined), end - at]:
            if cut > begin + 1:
                self._effects += [MULTI, *joined[begin:cut], EXEC]
                self._databases += [databases[begin], *databases[begin:cut], databases[cut - 1]]
                begin = cut
            self._effects += joined[begin : cut + 1]
            self._databases += databases[begin : cut + 1]
            begin = cut + 1

    def removed(self, database: int, name: bytes, fields: list[bytes]) -> None:
        """A key has expired, or was evicted; or these fields of a hash have expired."""
        argv = [b"HDEL", name, *fields] if fields else [b"DEL", name]
        self._note(database, argv)

    def shown(self, commands: list[tuple[int, Argv]]) -> None:
        """A record of a peer of this server has changed keys, as these commands would."""
        start = len(self._effects)
        for database, argv in commands:
            self._note(database, argv)
        if self._open is None:
            self._join(start)

    def forget_selection(self) -> None:
        """A new replica has selected no database yet."""
        self._database = NO_DATABASE

    def drop(self) -> None:
        """The batch has failed."""
        self._first = self._end
        self._effects.clear()
        self._databases.clear()

    def take(self) -> bytes:
        """The effects of the batch as replicas read them. Those of a script that still runs are
        part of a later batch."""
        if not self._effects:
            return b""
        count = len(self._effects) if self._open is None else self._open - self._first
        taken, self._effects = self._effects[:count], self._effects[count:]
        databases, self._databases = self._databases[:count], self._databases[count:]
        self._first += count
        if databases.count(self._database) == count:
            return b"".join(taken)
        parts: list[bytes] = []
        for database, effect in zip(databases, taken, strict=True):
            if database != self._database:
                self._database = database
                parts.append(encode2((b"SELECT", b"%d" % database)))
            parts.append(effect)
        return b"".join(parts)

    @property
    def _end(self) -> int:
        return self._first + len(self._effects)


def _cuts(effects: list[bytes]) -> list[int]:
    """The places of the commands that must not be part of a transaction."""
    return [
        at
        for at, effect in enumerate(effects)
        if effect[:NAME_BYTES].split(b"\r\n", 3)[2].upper() in OUT_OF_TRANSACTIONS
    ]
