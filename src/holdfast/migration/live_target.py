"""Writes records into a server that runs, or into a cluster.

A small value is one RESTORE, and many of them are one pipeline. A large value is made in pieces
under a temporary name, and renamed when it is complete. So a key exists as a whole or not at all,
and no message is huge. If anything breaks, the same records can be written again: a key that exists
already, with the same value and expiry, counts as written.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from holdfast.client.errors import ClientError, ServerError
from holdfast.client.topology.single import Command
from holdfast.client.topology.slots import slot_of
from holdfast.clock import Clock
from holdfast.migration.differences import difference, is_same_expiry
from holdfast.migration.errors import MigrationError, UnfitError
from holdfast.migration.live_content import UNKNOWN_COMMAND, LiveContent
from holdfast.migration.live_server import PASSING, PAUSE_S, LiveServer
from holdfast.migration.report import Report
from holdfast.migration.value_commands import commands_for, nbytes_of
from holdfast.store.rdb.file_reader import printable
from holdfast.store.rdb.records import Entry
from holdfast.store.rdb.value_codec import dump, has_expiring_fields

BATCH_BYTES: Final = 4 << 20
BATCH_KEYS: Final = 500
TEMPORARY: Final = b"holdfast:moving:{%d}"
OLDER: Final = b"DUMP payload version or checksum"  # than Redis 7.0
TOLERANCE_MS: Final = 1000


class LiveTarget:
    """With `is_dry` it writes nothing, and looks which keys exist. `left_out` is called with a
    sentence about each key that the server cannot take. It raises if nothing may be left out.
    Raises MigrationError."""

    def __init__(
        self,
        server: LiveServer,
        clock: Clock,
        report: Report,
        left_out: Callable[[str], None],
        *,
        replaces: bool = False,
        is_dry: bool = False,
    ) -> None:
        self._server = server
        self._content = LiveContent(server, clock)
        self._report = report
        self._left_out = left_out
        self._replaces = replaces
        self._is_dry = is_dry
        self._reads_dumps = True  # unless it is older than Redis 7.0
        self._batch: list[tuple[Entry, Command]] = []
        self._batch_bytes = 0
        self._database = 0  # of the batch

    # -- libraries ----------------------------------------------------------------------------

    def library(self, code: bytes) -> None:
        """Load it on every server that has keys. Raises UnfitError."""
        if self._is_dry:
            return
        replace = ("REPLACE",) if self._replaces else ()
        for server in self._server.servers():
            [reply] = self._server.ask_many([("FUNCTION", "LOAD", *replace, code)], at=server)
            if not isinstance(reply, ServerError):
                continue
            title = printable(code.partition(b"\n")[0])
            if UNKNOWN_COMMAND in reply.message:
                raise UnfitError(f"{self._server.address} has no functions, for library {title}")
            if b"already exists" not in reply.message:
                raise UnfitError(f"{self._server.address} refuses library {title}: {reply}")
            if code not in self._content.libraries():
                raise MigrationError(
                    f"{self._server.address} has another library {title}; --replace replaces it"
                )

    # -- keys ---------------------------------------------------------------------------------

    def put(self, entry: Entry, database: int, *, replaces: bool = False) -> None:
        if database != self._database or len(self._batch) >= BATCH_KEYS:
            self.flush()
            self._database = database
        nbytes = nbytes_of(entry.value)
        is_large = nbytes > BATCH_BYTES or has_expiring_fields(entry.value)
        if self._batch_bytes + nbytes > BATCH_BYTES or is_large:
            self.flush()
        replaces = replaces or self._replaces
        if self._is_dry:
            self._batch.append((entry, ("EXISTS", entry.name)))
        elif is_large or not self._reads_dumps:
            self._put_in_pieces(entry, replaces)
            return
        else:
            replace = ("REPLACE",) if replaces else ()
            at_ms = entry.expires_at_ms or 0
            payload = dump(entry.value, for_redis_7=True)
            command = ("RESTORE", entry.name, at_ms, payload, "ABSTTL", *replace)
            self._batch.append((entry, command))
        self._batch_bytes += nbytes

    def remove(self, database: int, name: bytes) -> None:
        self.flush()
        self._server.ask("UNLINK", name, database=database)

    def flush(self) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        replies = self._server.ask_many([command for _, command in batch], self._database)
        for (entry, command), reply in zip(batch, replies, strict=True):
            if isinstance(reply, ServerError):
                self._refused(entry, reply, command[-1] == "REPLACE")
            elif self._is_dry and reply == 1 and not self._replaces:
                self._check_present(entry)
            else:
                self._report.moved(entry.value.type, self._database)

    def _refused(self, entry: Entry, error: ServerError, replaces: bool) -> None:
        if error.code == b"BUSYKEY":
            self._check_present(entry)
        elif OLDER in error.message:
            self._reads_dumps = False
            self._put_in_pieces(entry, replaces)
        else:
            raise self._refusal(entry, error)

    def _refusal(self, entry: Entry, error: Exception) -> MigrationError:
        key = f"key {printable(entry.name)} of database {self._database}"
        return MigrationError(f"{self._server.address} does not take {key}: {error}")

    def _check_present(self, entry: Entry) -> None:
        """A key of that name exists. It may be the same."""
        [found] = self._content.read(self._database, [entry.name])
        if (
            isinstance(found, Entry)
            and difference(entry.value, found.value) is None
            and is_same_expiry(entry.expires_at_ms, found.expires_at_ms, TOLERANCE_MS)
        ):
            self._report.present += 1
            self._report.moved(entry.value.type, self._database)
        elif found is None and not self._is_dry:
            self._put_in_pieces(entry, replaces=False)  # it has expired since
        elif found is not None:
            self._left_out(
                f"{self._server.address} has another key {printable(entry.name)} in database"
                f" {self._database}, which --replace would replace"
            )

    # -- large keys ---------------------------------------------------------------------------

    def _put_in_pieces(self, entry: Entry, replaces: bool) -> None:
        if not replaces and self._content.has(self._database, [entry.name])[0]:
            self._check_present(entry)
            return
        give_up_s = time.monotonic() + self._server.patience_s
        while True:
            try:
                self._make(entry, replaces)
                return
            except PASSING as error:
                if time.monotonic() > give_up_s:
                    raise MigrationError(f"{self._server.address} is away: {error}") from None
            except ClientError as error:
                raise self._refusal(entry, error) from None
            except ServerError as error:
                if not error.is_retryable or time.monotonic() > give_up_s:
                    raise self._refusal(entry, error) from None
            time.sleep(PAUSE_S)

    def _make(self, entry: Entry, replaces: bool) -> None:
        name = self._temporary(entry.name)
        self._run([("UNLINK", name)])
        batch: list[Command] = []
        nbytes = 0
        for command in commands_for(name, entry.value):
            batch.append(command)
            nbytes += sum(len(word) for word in command if isinstance(word, bytes))
            if nbytes >= BATCH_BYTES or len(batch) >= BATCH_KEYS:
                self._run(batch)
                batch, nbytes = [], 0
        if entry.expires_at_ms is not None:
            batch.append(("PEXPIREAT", name, entry.expires_at_ms))
        self._run(batch)
        rename = "RENAME" if replaces else "RENAMENX"
        try:
            [reply] = self._run([(rename, name, entry.name)])
        except ServerError as error:
            if b"no such key" in error.message:
                return  # it has expired since
            raise
        if reply == 0:
            self._run([("UNLINK", name)])
            self._check_present(entry)
        else:
            self._report.moved(entry.value.type, self._database)

    def _run(self, commands: list[Command]) -> list[Any]:
        """The replies. Raises the first error, after which the key must be made again."""
        client = self._server.client(self._database)
        replies = self._server.wait(client.run_many("pipeline", commands))
        for reply in replies:
            if isinstance(reply, ClientError | ServerError):
                raise reply
        return replies

    def _temporary(self, name: bytes) -> bytes:
        """A name in the same slot."""
        if not self._server.is_cluster:
            return TEMPORARY % 0
        slot, number = slot_of(name), 0
        while slot_of(b"%d" % number) != slot:
            number += 1
        return TEMPORARY % number
