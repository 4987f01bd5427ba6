"""The commands before a connection is open: protocol, identity, database. No I/O.

`handshake` is a generator: it yields commands that go out together and is sent their replies.
"""

from collections.abc import Generator
from typing import Any, NamedTuple

from holdfast.client.errors import ConnectError, ServerError
from holdfast.client.transport.options import ClientOptions

Command = tuple[str | int, ...]


class Agreement(NamedTuple):
    protocol: int
    client_id: int | None  # the number of this connection at the server


def handshake(
    options: ClientOptions, version: str
) -> Generator[list[Command], list[Any], Agreement]:
    """Returns the agreement with the server. Raises ConnectError."""
    after = _after(options, version)
    if options.protocol == 3:
        hello: Command = ("HELLO", 3)
        if options.password is not None:
            hello += ("AUTH", options.username or "default", options.password)
        if options.client_name:
            hello += ("SETNAME", options.client_name)
        if options.cache_keys:
            after.append(("CLIENT", "TRACKING", "ON"))
        reply, *others = yield [hello, *after]
        if not isinstance(reply, ServerError):
            _check(after, others)
            client_id = reply.get(b"id") if isinstance(reply, dict) else None
            return Agreement(3, client_id if type(client_id) is int else None)
        if not _knows_no_hello(reply):
            raise ConnectError(f"HELLO: {reply}") from reply
    before: list[Command] = []
    if options.password is not None:
        user = (options.username,) if options.username else ()
        before.append(("AUTH", *user, options.password))
    if options.client_name:
        before.append(("CLIENT", "SETNAME", options.client_name))
    commands = [*before, *_after(options, version), ("CLIENT", "ID")]
    replies = yield commands
    _check(commands[:-1], replies[:-1])
    return Agreement(2, replies[-1] if type(replies[-1]) is int else None)


def _after(options: ClientOptions, version: str) -> list[Command]:
    commands: list[Command] = [
        ("CLIENT", "SETINFO", "LIB-NAME", "holdfast"),
        ("CLIENT", "SETINFO", "LIB-VER", version),
    ]
    if options.db:
        commands.append(("SELECT", options.db))
    return commands


def _check(commands: list[Command], replies: list[Any]) -> None:
    for command, reply in zip(commands, replies, strict=True):
        # Servers before 7.2 do not know SETINFO. Nothing depends on it.
        if isinstance(reply, ServerError) and command[1:2] != ("SETINFO",):
            raise ConnectError(f"{command[0]}: {reply}") from reply


def _knows_no_hello(error: ServerError) -> bool:
    return error.code == b"NOPROTO" or b"unknown command" in error.message.lower()
