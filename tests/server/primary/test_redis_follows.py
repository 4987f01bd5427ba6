"""redis-server follows Holdfast through random commands, and has the same data."""

import random
import re

import pytest

from holdfast import all_commands as all_commands
from holdfast.commands.table import TABLE
from tests.commands.streams.talk import parsed
from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.harness.processes import ServerProcess
from tests.harness.valkey import ValkeyServer
from tests.server.primary.following import is_up, wait_for_replica
from tests.wire import generators
from tests.wire.differential import WHOLE, split_array
from tests.wire.generators import Form, finish
from tests.wire.grammar import EXPIRE_NOW, Argv

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]

COMMANDS = 120

Contents = dict[tuple[int, bytes], tuple[bytes, ...]]


# Two calls of one script: the second takes the first back if it fails.
SCRIPT = """
local n = tonumber(table.remove(ARGV, 1))
local first, second = {}, {}
for at, arg in ipairs(ARGV) do table.insert(at <= n and first or second, arg) end
redis.call(unpack(first))
redis.call(unpack(second))
"""


class Writer:
    """Sends random commands that write: alone, in transactions, in scripts. `servers` are the
    primary and its replicas."""

    def __init__(
        self, client: RawClient, rng: random.Random, *servers: type[ServerProcess]
    ) -> None:
        self._client = client
        self._rng = rng
        self._servers = servers
        self._sent = 0

    def run(self, count: int) -> None:
        for _ in range(count):
            match self._rng.randrange(10):
                case 0:
                    self._client.command("MULTI")
                    for _ in range(self._rng.randrange(2)):
                        self._client.command(*self._command())
                    self._client.command("EXEC")
                case 1:
                    first, second = self._command(), self._command()
                    self._client.command("EVAL", SCRIPT, 0, len(first), *first, *second)
                case 2:
                    self._client.command("SELECT", self._rng.randrange(3))
                case _:
                    self._client.command(*self._command())

    def _command(self) -> Argv:
        while True:
            argv = generators.command(self._rng, is_write)
            if differs(argv, *self._servers):
                continue
            if argv[0] != EXPIRE_NOW:
                self._sent += 1
                return finish(argv, self._sent, b"0.01")
            self._client.command("PEXPIRE", argv[1], 1)


def differs(argv: Argv, primary: type[ServerProcess], *replicas: type[ServerProcess]) -> bool:
    """Whether the command may leave another value at a replica, and none of that is our doing."""
    words = [word.upper() for word in argv]
    if primary is not HoldfastServer:
        # Redis and Valkey do not send a BITFIELD that only makes its string longer, nor that a
        # consumer was created by a read of its history, or by an XCLAIM that claims nothing.
        if b"FAIL" in words or words[0] == b"XCLAIM":
            return True
        if words[0] == b"XREADGROUP" and b">" not in words:
            return True
    # Valkey reads a score without the blanks and the hexadecimal digits that Redis 7 allows.
    return ValkeyServer in replicas and any(re.match(rb"\(?( |0X)", word) for word in words)


def is_write(form: Form) -> bool:
    container, _, sub = form.name.partition("|")
    entry = TABLE.get(container)
    entry = entry.subcommands.get(sub) if entry is not None and sub else entry
    return entry is not None and (entry.is_write or form.name == EXPIRE_NOW.decode())


def contents(client: RawClient) -> Contents:
    """By database and name: the type and the value of each key, and when it expires."""
    found: Contents = {}
    for database in range(16):
        client.command("SELECT", database)
        for name in sorted(split_names(client.command("KEYS", "*"))):
            kind = client.command("TYPE", name)
            if kind == b"+none\r\n":
                continue  # it has expired since
            whole = [arg.replace(b"<name>", name) for arg in WHOLE[kind]]
            value = client.command(*whole)
            if kind in (b"+hash\r\n", b"+set\r\n"):
                value = b"\r\n".join(sorted(value.split(b"\r\n")))
            elif kind == b"+zset\r\n":  # Valkey writes fewer digits
                items = parsed(value)
                value = repr([*zip(items[::2], map(float, items[1::2]), strict=True)]).encode()
            elif kind == b"+stream\r\n":  # the times at which consumers were seen differ
                value = client.command("XRANGE", name, "-", "+")
                value += client.command("XINFO", "GROUPS", name)
            found[database, name] = (kind, value, client.command("PEXPIRETIME", name))
    client.command("SELECT", 0)
    return found


def split_names(reply: bytes) -> list[bytes]:
    return [part[part.index(b"\r\n") + 2 : -2] for part in split_array(reply)]


def test_any_writes(primary: HoldfastServer, any_replica: RedisServer, rng: random.Random) -> None:
    """Before the snapshot, while it is taken, and after it."""
    client = primary.client()
    writer = Writer(client, rng, HoldfastServer, type(any_replica))
    writer.run(COMMANDS)
    copy = any_replica.client()
    copy.command("REPLICAOF", "127.0.0.1", primary.port)
    writer.run(COMMANDS)
    wait_until(lambda: is_up(copy), "it follows")
    writer.run(COMMANDS)
    compare(client, copy)


def compare(
    client: RawClient, copy: RawClient, primary: type[ServerProcess] = HoldfastServer
) -> None:
    """Keys that have expired go before both are read."""
    ours = contents(client)
    wait_for_replica(client)
    assert_same(ours, contents(copy), primary)


def assert_same(ours: Contents, theirs: Contents, primary: type[ServerProcess]) -> None:
    """Valkey tells its replicas of a consumer only when the consumer gets an entry."""
    if primary is ValkeyServer:
        ours, theirs = without_consumers(ours), without_consumers(theirs)
    assert theirs == ours


def without_consumers(found: Contents) -> Contents:
    """Without the numbers of consumers."""
    return {
        name: tuple(re.sub(rb"consumers\r\n:\d+\r\n", b"", part) for part in parts)
        for name, parts in found.items()
    }


def test_a_bitfield_that_sets_nothing_may_make_its_string_longer(
    primary: HoldfastServer, any_replica: RedisServer
) -> None:
    client, copy = primary.client(), any_replica.client()
    client.command("SET", "short", "x")
    copy.command("REPLICAOF", "127.0.0.1", primary.port)
    wait_until(lambda: is_up(copy), "it follows")
    for name in ("new", "short"):
        argv = ["BITFIELD", name, "OVERFLOW", "FAIL", "SET", "u8", 16, 256]
        assert client.command(*argv) == b"*1\r\n$-1\r\n"
    compare(client, copy)
    assert copy.command("STRLEN", "new") == copy.command("STRLEN", "short") == b":3\r\n"


def stream_commands(rng: random.Random) -> list[str]:
    """Commands and options that no server of version 7 knows."""
    entry = f"{rng.randrange(1, 40)}-1"
    policy = rng.choice(["KEEPREF", "DELREF", "ACKED"])
    group, consumer = rng.choice("gh"), rng.choice("cd")
    return [
        f"XREADGROUP GROUP {group} {consumer} COUNT 4 STREAMS s >",
        f"XREADGROUP GROUP {group} {consumer} CLAIM 0 COUNT 2 STREAMS s >",
        f"XREADGROUP GROUP {group} {consumer} MAXCOUNT 3 STREAMS s >",
        f"XNACK s {group} {rng.choice(['SILENT', 'FAIL'])} IDS 1 {entry} FORCE",
        f"XACK s {group} {entry}",
        f"XDELEX s {policy} IDS 1 {entry}",
        f"XACKDEL s {group} {policy} IDS 1 {entry}",
        f"XTRIM s MINID {rng.randrange(6)} {policy}",
        f"XADD once IDMP p {rng.randrange(5)} * a b",
        f"XADD once {policy} MAXLEN ~ 3 IDMPAUTO p * a {rng.randrange(5)}",
    ]


def test_streams_with_the_commands_of_redis_8(
    primary: HoldfastServer, any_replica: RedisServer, rng: random.Random
) -> None:
    """A returned entry has a consumer without a name there; else all is the same."""
    client, copy = primary.client(), any_replica.client()
    for number in range(1, 40):
        client.command("XADD", "s", f"{number}-1", "a", "b")
    for group in "gh":
        client.command("XGROUP", "CREATE", "s", group, "0")
    for is_following in (False, True):
        for _ in range(40):
            client.command(*rng.choice(stream_commands(rng)).split())
        if not is_following:
            copy.command("REPLICAOF", "127.0.0.1", primary.port)
            wait_until(lambda: is_up(copy), "it follows")
    wait_for_replica(client)
    for name in ("s", "once"):
        assert copy.command("XRANGE", name, "-", "+") == client.command("XRANGE", name, "-", "+")
    for group in "gh":
        pending = [
            [(entry, consumer, count) for entry, consumer, _, count in parsed(reply)]
            for each in (client, copy)
            if (reply := each.command("XPENDING", "s", group, "-", "+", 99))
        ]
        assert pending[0] == pending[1]
