"""The commands that pages offer to a user. The server is asked when a user signs in, and again from
time to time, because permissions change.

An answer decides only what a page offers. The server checks each command again, and also the keys,
which are not known before. The pages of `NEVER_SENT` are the exception.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.client import Client, Request, ServerError
from holdfast.client.protocol.request import Argument
from holdfast.errors import HoldfastError

Words = tuple[Argument, ...]

# All commands that a page or an action needs, with enough arguments. They are not run: ACL DRYRUN
# only checks them, and a transaction with them is discarded. Their key is one that no program uses,
# in case the user loses the permission for MULTI in that moment.
KEY = "holdfast:dashboard:no-such-key"
PROBES: dict[str, Words] = {
    "INFO": ("INFO",),
    "SCAN": ("SCAN", "0"),
    "TYPE": ("TYPE", KEY),
    "GET": ("GET", KEY),
    "GETRANGE": ("GETRANGE", KEY, "0", "0"),
    "LRANGE": ("LRANGE", KEY, "0", "0"),
    "HSCAN": ("HSCAN", KEY, "0"),
    "SSCAN": ("SSCAN", KEY, "0"),
    "ZRANGE": ("ZRANGE", KEY, "0", "0"),
    "XRANGE": ("XRANGE", KEY, "-", "+"),
    "SET": ("SET", KEY, "v"),
    "DEL": ("DEL", KEY),
    "UNLINK": ("UNLINK", KEY),
    "RENAMENX": ("RENAMENX", KEY, f"{KEY}:2"),
    "EXPIRE": ("EXPIRE", KEY, "1"),
    "PERSIST": ("PERSIST", KEY),
    "LPUSH": ("LPUSH", KEY, "v"),
    "RPUSH": ("RPUSH", KEY, "v"),
    "LSET": ("LSET", KEY, "0", "v"),
    "LREM": ("LREM", KEY, "1", "v"),
    "HSET": ("HSET", KEY, "f", "v"),
    "HDEL": ("HDEL", KEY, "f"),
    "SADD": ("SADD", KEY, "m"),
    "SREM": ("SREM", KEY, "m"),
    "ZADD": ("ZADD", KEY, "1", "m"),
    "ZREM": ("ZREM", KEY, "m"),
    "XADD": ("XADD", KEY, "*", "f", "v"),
    "XDEL": ("XDEL", KEY, "0-1"),
    "OBJECT FREQ": ("OBJECT", "FREQ", KEY),
    "HOTKEYS GET": ("HOTKEYS", "GET"),
    "HOTKEYS START": ("HOTKEYS", "START", "METRICS", "1", "CPU"),
    "EVALSHA": ("EVALSHA", "0" * 40, "0"),
    "SLOWLOG GET": ("SLOWLOG", "GET"),
    "SLOWLOG RESET": ("SLOWLOG", "RESET"),
    "CLIENT LIST": ("CLIENT", "LIST"),
    "CLIENT KILL": ("CLIENT", "KILL", "ID", "0"),
    "ACL LIST": ("ACL", "LIST"),
    "ACL GETUSER": ("ACL", "GETUSER", "default"),
    "ACL LOG": ("ACL", "LOG"),
    "CONFIG GET": ("CONFIG", "GET", "port"),
    "CONFIG SET": ("CONFIG", "SET", "no-such-parameter", "v"),
    "CONFIG REWRITE": ("CONFIG", "REWRITE"),
    "ACTIVE DIGEST": ("ACTIVE", "DIGEST"),
    "ACTIVE PAUSE": ("ACTIVE", "PAUSE", "1"),
    "ACTIVE RESUME": ("ACTIVE", "RESUME", "1"),
    "ACTIVE FORGET": ("ACTIVE", "FORGET", "1"),
    "CLUSTER INFO": ("CLUSTER", "INFO"),
}
# The overview and the audit trail send no command of the user, so the server cannot refuse them.
# They are for users that may run these commands, which change nothing.
NEVER_SENT = ("INFO", "ACL LIST")
# Commands that change data. If a user may run none of these, the dashboard shows that it is
# read-only.
CHANGES = ("SET", "DEL", "LPUSH", "HSET", "SADD", "ZADD", "XADD", "EVALSHA")


@dataclass(frozen=True, slots=True)
class Permissions:
    denied: frozenset[str] = field(default_factory=frozenset)

    def may(self, *commands: str) -> bool:
        return self.denied.isdisjoint(commands)

    @property
    def is_read_only(self) -> bool:
        return self.denied.issuperset(CHANGES)


async def permissions_of(client: Client, username: str, operator: Client | None) -> Permissions:
    """Ask with the client of the user. `operator` has the login of the URL and may be allowed to
    ask about other users, which leaves no entries in ACL LOG."""
    found = await quiet_permissions_of(client, username, operator)
    return found or Permissions(await _by_transaction(client))


async def quiet_permissions_of(
    client: Client, username: str, operator: Client | None
) -> Permissions | None:
    """The same, but None if the question would leave entries in ACL LOG."""
    for asker in (client, operator):
        if asker is not None:
            denied = await _by_dry_run(asker, username)
            if denied is not None:
                return Permissions(denied)
    return None


async def _by_dry_run(client: Client, username: str) -> frozenset[str] | None:
    """None if this client may not ask, or the server has no ACL DRYRUN (before Redis 7)."""
    try:
        await client.exec("ACL", "DRYRUN", username, "PING")
        asked = Request(("ACL", "DRYRUN", username, *words) for words in PROBES.values())
        answers = await client.exec_dynamic(asked, into=Any)
    except HoldfastError:
        return None
    return _denied(zip(PROBES, answers, strict=True))


async def _by_transaction(client: Client) -> frozenset[str]:
    """A server checks the permission for a command when it is queued, and a transaction that is
    discarded runs none. A user who may not begin one would run all of them, so this is tried
    first. Then the server decides when a page sends a command."""
    tried = await client.exec_dynamic(Request([("MULTI",), ("DISCARD",)]), into=Any)
    if isinstance(tried[0], HoldfastError):
        asked = Request(PROBES[name] for name in NEVER_SENT)
        return _denied(zip(NEVER_SENT, await client.exec_dynamic(asked, into=Any), strict=True))
    words: list[Words] = [("MULTI",), *PROBES.values(), ("DISCARD",)]
    answers = await client.exec_dynamic(Request(words), into=Any)
    return _denied(zip(PROBES, answers[1:-1], strict=True))


def _denied(answers: Iterable[tuple[str, Any]]) -> frozenset[str]:
    return frozenset(name for name, answer in answers if _is_denial(answer))


def _is_denial(answer: Any) -> bool:
    """Whether the command itself is refused; another key may be allowed."""
    if isinstance(answer, ServerError):
        return answer.code == b"NOPERM" and b"to run the" in answer.message
    if isinstance(answer, bytes | str):
        text = answer if isinstance(answer, bytes) else answer.encode()
        return b"to run the" in text
    return False
