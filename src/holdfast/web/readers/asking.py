"""Many commands in one pipeline. A refused command gives None instead of an error."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from holdfast.client import Client, Request, ServerError
from holdfast.errors import HoldfastError

Argument: TypeAlias = str | bytes | int | float
Command: TypeAlias = tuple[Argument, ...]

_MOST_AT_ONCE = 1000  # commands in one pipeline: other clients wait for all of them


async def ask(client: Client, commands: Sequence[Command]) -> list[Any]:
    """The reply of each command; None if the server refuses it, for this user or for this key.

    Raises HoldfastError if the server does not answer, or wants a password first.
    """
    replies: list[Any] = []
    for start in range(0, len(commands), _MOST_AT_ONCE):
        request = Request(commands[start : start + _MOST_AT_ONCE])
        for reply in await client.exec_dynamic(request, into=Any):
            if not isinstance(reply, HoldfastError):
                replies.append(reply)
            elif isinstance(reply, ServerError) and not reply.is_retryable and not _is_login(reply):
                replies.append(None)
            else:
                raise reply
    return replies


async def ask_one(client: Client, *command: Argument) -> Any:
    """The reply of a command; None if the server refuses it."""
    (reply,) = await ask(client, [command])
    return reply


async def server_time_s(client: Client) -> float:
    """The clock of the server, which leases and builds use; our clock if the user may not ask for
    it."""
    reply = await ask_one(client, "TIME")
    return time.time() if reply is None else int(reply[0]) + int(reply[1]) / 1e6


def pairs(reply: Any) -> dict[Any, Any]:
    """A dict of a map, which is a flat list in RESP2, or a list of pairs."""
    if reply is None:
        return {}
    if isinstance(reply, Mapping):
        return dict(reply)
    items = list(reply)
    if items and isinstance(items[0], list | tuple):
        return dict(items)
    return dict(zip(items[::2], items[1::2], strict=False))


def scored(reply: Any) -> list[tuple[bytes, float]]:
    """Members and scores of a sorted set, in either protocol."""
    items: Iterable[Any] = reply or ()
    flat: list[Any] = []
    for item in items:
        flat.extend(item if isinstance(item, list | tuple) else (item,))
    return [(member, float(score)) for member, score in zip(flat[::2], flat[1::2], strict=False)]


def number(reply: Any) -> int | None:
    """A whole number in any form; None if it is none."""
    try:
        return int(reply)
    except (TypeError, ValueError):
        return None


def _is_login(error: ServerError) -> bool:
    return error.code in (b"NOAUTH", b"WRONGPASS")
