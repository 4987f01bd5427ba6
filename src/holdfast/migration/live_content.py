"""Reads keys of a server that runs, by DUMP: see `LiveServer`.

The values of a group of keys are in memory at once. The sizes that MEMORY USAGE tells decide about
the groups: a group is one large key or many small ones.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from holdfast.client.errors import ServerError
from holdfast.clock import Clock
from holdfast.migration.errors import MigrationError
from holdfast.migration.live_server import LiveServer
from holdfast.store.rdb.file_reader import printable
from holdfast.store.rdb.records import Entry, Unknown
from holdfast.store.rdb.value_codec import (
    RdbError,
    UnknownFormError,
    load_foreign,
    load_foreign_libraries,
)

GROUP_BYTES: Final = 8 << 20
GROUP_KEYS: Final = 500
GROUP_KEYS_UNKNOWN: Final = 16  # if the server does not tell sizes

UNKNOWN_COMMAND: Final = b"unknown command"


class LiveContent:
    is_live = True

    def __init__(self, server: LiveServer, clock: Clock) -> None:
        self.server = server
        self._clock = clock
        self._tells_sizes = True
        self._has_expiretime = True  # since Redis 7.0

    @property
    def place(self) -> str:
        return self.server.address

    @property
    def only_database(self) -> int | None:
        return self.server.database

    def key_counts(self) -> dict[int, int]:
        return self.server.key_counts()

    def names(self, database: int) -> Iterator[list[bytes]]:
        return self.server.names(database)

    def libraries(self) -> list[bytes]:
        """The code of each library of functions; none before Redis 7.0. Raises MigrationError."""
        try:
            payload = self.server.ask("FUNCTION", "DUMP")
        except ServerError as error:
            if UNKNOWN_COMMAND in error.message:
                return []
            raise MigrationError(f"{self.server.address} refuses FUNCTION DUMP: {error}") from None
        try:
            return list(load_foreign_libraries(payload))
        except (RdbError, TypeError):
            raise self.server.nonsense("FUNCTION DUMP") from None

    def read(self, database: int, names: Sequence[bytes]) -> Iterator[Entry | Unknown | None]:
        """Keys in the order of their names; None for a key that does not exist."""
        for group in self._groups(database, names):
            yield from self._read(database, group)

    def has(self, database: int, names: Sequence[bytes]) -> list[bool]:
        replies = self.server.ask_many([("EXISTS", name) for name in names], database)
        return [self._answered(reply, "EXISTS") == 1 for reply in replies]

    def _groups(self, database: int, names: Sequence[bytes]) -> Iterator[list[bytes]]:
        sizes: Iterable[Any] = ()
        if self._tells_sizes:
            sizes = self.server.ask_many([("MEMORY", "USAGE", name) for name in names], database)
            self._tells_sizes = not any(isinstance(size, ServerError) for size in sizes)
        if not self._tells_sizes:
            sizes = [GROUP_BYTES // GROUP_KEYS_UNKNOWN] * len(names)
        group: list[bytes] = []
        nbytes = 0
        for name, size in zip(names, sizes, strict=True):
            size = size if isinstance(size, int) else 0
            if group and (nbytes + size > GROUP_BYTES or len(group) >= GROUP_KEYS):
                yield group
                group, nbytes = [], 0
            group.append(name)
            nbytes += size
        if group:
            yield group

    def _read(self, database: int, names: list[bytes]) -> Iterator[Entry | Unknown | None]:
        expiry = "PEXPIRETIME" if self._has_expiretime else "PTTL"
        commands = [command for name in names for command in (("DUMP", name), (expiry, name))]
        replies = self.server.ask_many(commands, database)
        last = replies[-1]
        if (
            self._has_expiretime
            and isinstance(last, ServerError)
            and UNKNOWN_COMMAND in last.message
        ):
            self._has_expiretime = False
            yield from self._read(database, names)
            return
        for place, name in enumerate(names):
            dump, left_ms = replies[2 * place], self._answered(replies[2 * place + 1], expiry)
            if self._answered(dump, "DUMP") is None:
                yield None
                continue
            replies[2 * place] = None  # a large one need not stay
            yield self._record(database, name, dump, left_ms)

    def _record(
        self, database: int, name: bytes, dump: bytes, left_ms: Any
    ) -> Entry | Unknown | None:
        if not isinstance(left_ms, int) or not isinstance(dump, bytes):
            raise self.server.nonsense("DUMP")
        expires_at_ms: int | None = None
        if left_ms >= 0:
            expires_at_ms = left_ms + (0 if self._has_expiretime else self._clock.now_ms())
        elif left_ms == -2:
            return None  # it has gone since
        try:
            return Entry(database, name, load_foreign(dump), expires_at_ms)
        except UnknownFormError:
            return Unknown(database, name, self._type_name(database, name))
        except RdbError:
            raise MigrationError(
                f"{self.server.address} sent a damaged value for key {printable(name)} of"
                f" database {database}"
            ) from None

    def _type_name(self, database: int, name: bytes) -> str:
        reply = self.server.ask("TYPE", name, database=database)
        return reply if isinstance(reply, str) else printable(reply).strip("'")

    def _answered(self, reply: Any, name: str) -> Any:
        if isinstance(reply, ServerError):
            raise MigrationError(f"{self.server.address} refuses {name}: {reply}")
        return reply
