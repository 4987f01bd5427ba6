"""A server or a cluster that runs, by its URL: one client for each of its databases.

All commands that go through here may run twice: a pipeline is sent again if its connection broke.
"""

import re
import time
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from holdfast.client.api.client import Client
from holdfast.client.api.factory import make_client
from holdfast.client.api.thread import LoopThread
from holdfast.client.errors import (
    BadReplyError,
    ClientError,
    ClosedError,
    ConnectError,
    ConnectionLostError,
    ConversionError,
    NotConnectedError,
    QueueFullError,
    ServerError,
)
from holdfast.client.protocol.convert import converter
from holdfast.client.topology.single import Caller, Command
from holdfast.client.transport.options import (
    CLUSTER_SCHEMES,
    SENTINEL_SCHEMES,
    SERVER_SCHEMES,
    ClientOptions,
    Target,
    parse_url,
)
from holdfast.errors import ConfigError
from holdfast.migration.errors import MigrationError

T = TypeVar("T")

# The schemes of the client. Other programs write the name of a cluster's scheme with a hyphen.
SCHEMES: Final = {
    **{scheme: scheme for scheme in (*SERVER_SCHEMES, *SENTINEL_SCHEMES, *CLUSTER_SCHEMES)},
    "redis-cluster": "redis+cluster",
    "rediss-cluster": "rediss+cluster",
}
TIMEOUT_S: Final = 30.0  # unless the URL says otherwise: one value may be hundreds of megabytes
PATIENCE_S: Final = 30.0  # with a server that is away
PAUSE_S: Final = 0.1  # between two attempts
MOST_BYTES: Final = 2 << 30  # of one reply, and of all requests on their way
NAMES_AT_ONCE: Final = 1000

# The command did not arrive, or its reply did not. It is sent again.
PASSING: Final = (NotConnectedError, ConnectError, ConnectionLostError, QueueFullError)

_page = converter(tuple[bytes, list[bytes]])
_text = converter(str)
_number = converter(int)


def is_url(word: str) -> bool:
    """Whether this is a URL, with any scheme, and not a path. (`C:` is the drive of a path.)"""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", word) is not None


class LiveServer:
    """Use it with `with`. Raises MigrationError if the server cannot be reached, does not answer,
    or answers with nonsense. The sentence names the server, and never shows a password."""

    def __init__(self, url: str) -> None:
        """Raises ConfigError."""
        scheme, _, rest = url.partition("://")
        if scheme not in SCHEMES:
            raise ConfigError(f"a server has a URL such as redis://host:6379, not {scheme}://")
        try:
            target = parse_url(f"{SCHEMES[scheme]}://{rest}", client_name="holdfast-migration")
        except (ValueError, TypeError) as error:
            raise ConfigError(str(error)) from None
        options = target.options
        if options.request_timeout_s == ClientOptions().request_timeout_s:
            options = replace(options, request_timeout_s=TIMEOUT_S)
        options = replace(
            options, max_bytes=MOST_BYTES, max_reply_bytes=MOST_BYTES, close_grace_s=0.0
        )
        self._target = replace(target, options=options)
        self.is_cluster = target.scheme in CLUSTER_SCHEMES
        self.patience_s = PATIENCE_S
        self.is_single = target.scheme in SERVER_SCHEMES
        self.address = options.address
        # The only database to use, if the URL names one. A cluster has no other.
        names_it = target.scheme in ("redis", "rediss") and target.path.strip("/")
        self.database = options.db if self.is_cluster or options.db or names_it else None
        self._clients: dict[int, Client] = {}

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        try:
            self.client(self.database or 0)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            self.wait(client.close(0))
        self._thread.stop()

    @property
    def options(self) -> ClientOptions:
        """How to reach the server; not for a cluster."""
        return self._target.options

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine in the event loop of the clients."""
        return self._thread.wait(work)

    def client(self, database: int) -> Client:
        client = self._clients.get(database)
        if client is None:
            options = replace(self._target.options, db=database)
            try:
                client = self.wait(_connected(replace(self._target, options=options)))
            except ClientError as error:
                raise MigrationError(f"cannot use {self.address}: {error}") from None
            self._clients[database] = client
        return client

    # -- commands -----------------------------------------------------------------------------

    def ask(self, *args: str | bytes | int, database: int | None = None) -> Any:
        """The reply; raises ServerError."""
        [reply] = self.ask_many([args], database)
        if isinstance(reply, ServerError):
            raise reply
        return reply

    def ask_many(
        self, commands: Sequence[Command], database: int | None = None, at: Caller | None = None
    ) -> list[Any]:
        """The replies in order, error replies included; `at` is one of `servers`."""
        client = self.client(self.database or 0 if database is None else database)
        replies: list[Any] = [None] * len(commands)
        rest = list(range(len(commands)))
        give_up_s = time.monotonic() + self.patience_s
        while rest:
            some = [commands[place] for place in rest]
            try:
                found = self.wait(
                    client.run_many("pipeline", some) if at is None else _at(at, some)
                )
            except ClientError as error:
                found = [error] * len(some)
            again, trouble = [], None
            for place, reply in zip(rest, found, strict=True):
                if self._is_passing(reply):
                    trouble = reply
                    again.append(place)
                else:
                    replies[place] = reply
            if len(again) < len(rest):
                give_up_s = time.monotonic() + self.patience_s
            elif time.monotonic() > give_up_s:
                raise MigrationError(f"{self.address} is away: {trouble}")
            rest = again
            if rest:
                time.sleep(PAUSE_S)
        return replies

    def _is_passing(self, reply: Any) -> bool:
        """Whether to send the command again; raises for errors that stay."""
        if isinstance(reply, ServerError):
            return reply.is_retryable
        if not isinstance(reply, ClientError):
            return False
        if isinstance(reply, PASSING) and not isinstance(reply, BadReplyError | ClosedError):
            return True
        raise MigrationError(f"{self.address}: {reply}") from None

    def servers(self, database: int | None = None) -> list[Caller]:
        """The servers that have keys of their own."""
        client = self.client(self.database or 0 if database is None else database)
        try:
            return self.wait(client.servers())
        except ClientError as error:
            raise MigrationError(f"{self.address}: {error}") from None

    # -- what there is ------------------------------------------------------------------------

    def key_counts(self) -> dict[int, int]:
        """How many keys the databases have, about; those without keys are not in it. If the URL
        names a database, that is the only one."""
        if self.is_cluster:
            count = sum(
                self._number(self.ask_many([("DBSIZE",)], at=server)[0])
                for server in self.servers()
            )
            return {0: count} if count else {}
        if self.database is not None:
            count = self._number(self.ask("DBSIZE"))
            return {self.database: count} if count else {}
        counts = {}
        for name, text in self.info("keyspace").items():
            found = dict(pair.partition("=")[::2] for pair in text.split(","))
            if name.startswith("db") and name[2:].isdigit() and found.get("keys", "").isdigit():
                counts[int(name[2:])] = int(found["keys"])
        return counts

    def names(self, database: int) -> Iterator[list[bytes]]:
        """All names, in lists. A key that is there during the whole scan is in it, perhaps
        twice."""
        for server in self.servers(database):
            cursor = b"0"
            while True:
                command = ("SCAN", cursor, "COUNT", NAMES_AT_ONCE)
                [reply] = self.ask_many([command], database, server)
                cursor, names = self._converted(_page, reply, "SCAN")
                if names:
                    yield names
                if cursor == b"0":
                    break

    def info(self, section: str) -> dict[str, str]:
        """Lines of INFO; none if the server does not tell."""
        try:
            text: str = self._converted(_text, self.ask("INFO", section), "INFO")
        except ServerError:
            return {}
        return dict(line.partition(":")[::2] for line in text.splitlines() if ":" in line)

    def _number(self, reply: Any) -> int:
        count: int = self._converted(_number, reply, "DBSIZE")
        return count

    def _converted(self, convert: Any, reply: Any, name: str) -> Any:
        if isinstance(reply, ServerError):
            raise MigrationError(f"{self.address} refuses {name}: {reply}")
        try:
            return convert(reply)
        except ConversionError as error:
            raise self.nonsense(f"{name}: {error}") from None

    def nonsense(self, about: str) -> MigrationError:
        return MigrationError(f"{self.address} sent a wrong reply to {about}")


async def _connected(target: Target) -> Client:
    client = make_client(target)
    try:
        await client.connect()
    except BaseException:
        await client.close(0)
        raise
    return client


async def _at(server: Caller, commands: list[Command]) -> list[Any]:
    return await server.call_many(commands)
