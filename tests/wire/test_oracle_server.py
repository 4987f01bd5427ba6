"""Commands about the server itself, byte for byte as with redis-server where that is possible."""

import re
from collections.abc import Iterator

import pytest

from holdfast import all_commands as all_commands
from holdfast.commands.table import TABLE, Command
from tests.harness import HoldfastServer, Pair

# Redis 7.0 does not have these with all their arguments.
HAVE_GROWN = {"zrank", "zrevrank"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastServer]:
    folder = tmp_path_factory.mktemp("server")
    with HoldfastServer(folder, "--enable-debug-command", "yes") as server:
        yield server


def every_command() -> Iterator[tuple[str, Command]]:
    for entry in TABLE.values():
        yield entry.name, entry
        for sub in entry.subcommands.values():
            yield sub.name, sub


def is_newer(entry: Command) -> bool:
    """Whether Redis 7.0 does not have the command."""
    major, minor, _ = map(int, entry.since.split("."))
    return "valkey" in entry.flags or (major, minor) > (7, 0)


OURS_ALONE = "active"  # Redis has nothing like it
ALL = {
    name: entry
    for name, entry in every_command()
    if not is_newer(entry) and name not in HAVE_GROWN and name.partition("|")[0] != OURS_ALONE
}
LEAVES = [name for name, entry in ALL.items() if not entry.subcommands]
CONTAINERS = [name for name, entry in ALL.items() if entry.subcommands]


@pytest.mark.parametrize("name", LEAVES)
def test_command_info(pair: Pair, name: str) -> None:
    """Arity, flags, keys, categories, tips: everything clients know about a command."""
    assert pair.same("COMMAND", "INFO", name).startswith(b"*1\r\n*10\r\n")


@pytest.mark.parametrize("name", CONTAINERS)
def test_command_info_of_containers(pair: Pair, name: str) -> None:
    """Redis shows subcommands in the order of a hash table, so only the part before them is
    compared."""
    replies = [client.command("COMMAND", "INFO", name) for client in (pair.ours, pair.oracle)]
    ours, oracle = (reply.split(b"\r\n*10\r\n") for reply in replies)
    # The last line before the subcommands says how many there are; we have fewer or more.
    assert ours[1].rsplit(b"\r\n", 1)[0] == oracle[1].rsplit(b"\r\n", 1)[0]


@pytest.mark.parametrize("name", LEAVES)
def test_since_and_group(pair: Pair, name: str) -> None:
    """The fields of COMMAND DOCS other than the summary, which is our own."""
    entry = ALL[name]
    oracle = pair.oracle.command("COMMAND", "DOCS", name)
    assert b"$5\r\nsince\r\n$%d\r\n%b\r\n" % (len(entry.since), entry.since.encode()) in oracle
    assert b"$5\r\ngroup\r\n$%d\r\n%b\r\n" % (len(entry.group), entry.group.encode()) in oracle
    assert pair.ours.command("COMMAND", "DOCS", name)[:1] == oracle[:1]


SAME = [
    "COMMAND INFO nosuch get|x",
    "COMMAND INFO config|nope config|get|x",
    "COMMAND DOCS nosuch",
    "COMMAND COUNT x",
    "COMMAND NOPE",
    "COMMAND NOPE x",
    "COMMAND LIST x",
    "COMMAND LIST FILTERBY",
    "COMMAND LIST FILTERBY ACLCAT",
    "COMMAND LIST FILTERBY ACLCAT nope",
    "COMMAND LIST FILTERBY MODULE x",
    "COMMAND LIST FILTERBY PATTERN lrang*",
    "COMMAND LIST FILTERBY NOPE x",
    "COMMAND GETKEYS",
    "COMMAND GETKEYS get",
    "COMMAND GETKEYS get a",
    "COMMAND GETKEYS get a b",
    "COMMAND GETKEYS nosuch a",
    "COMMAND GETKEYS ping a",
    "COMMAND GETKEYS config get x",
    "COMMAND GETKEYS config nope x",
    "COMMAND GETKEYS object encoding x",
    "COMMAND GETKEYS mset a b c d",
    "COMMAND GETKEYS mset a b c",
    "COMMAND GETKEYS blpop a b 0",
    "COMMAND GETKEYS lmove a b left right",
    "COMMAND GETKEYS lmpop 0 a left",
    "COMMAND GETKEYS lmpop x a left",
    "COMMAND GETKEYS lmpop 1 a left",
    "COMMAND GETKEYS lmpop 9 a left",
    "COMMAND GETKEYS blmpop 0 2 a b left",
    *(
        f"COMMAND GETKEYS migrate host 1 {words}"
        for words in (
            *("k 0 9", "'' 0 9 KEYS a b", "'' 0 9 AUTH KEYS KEYS a", "'' 0 9 COPY keys a b"),
            *("'' 0 9 AUTH2 KEYS p KEYS a", "'' 0 9 AUTH2 u KEYS KEYS a", "'' 0 9 AUTH KEYS"),
        )
    ),
    "COMMAND GETKEYSANDFLAGS set a b",
    "COMMAND GETKEYSANDFLAGS set a b get",
    "COMMAND GETKEYSANDFLAGS set a b ex 5 GET",
    "COMMAND GETKEYSANDFLAGS lmove a b left right",
    *(
        f"COMMAND GETKEYSANDFLAGS bitfield k {words}"
        for words in (
            *("", "get u8 0", "GET u8 0 get u8 1", "OVERFLOW sat GET u8 0", "overflow sat"),
            *("set u8 0 1", "GET u8 0 INCRBY u8 0 1", "get u8", "set u8 0", "nope", "overflow"),
        )
    ),
    "COMMAND GETKEYSANDFLAGS del a b",
    "COMMAND GETKEYSANDFLAGS ping x",
    "CONFIG",
    "CONFIG NOPE",
    "CONFIG GET",
    "CONFIG GET maxmemory-samples",
    "CONFIG GET nope",
    "CONFIG GET maxmemory-s* MAXMEMORY-samples",
    "CONFIG SET",
    "CONFIG SET a",
    "CONFIG SET a b c",
    "CONFIG SET nope 1",
    "CONFIG SET maxmemory abc",
    "CONFIG SET maxmemory 1mb maxmemory 2mb",
    "CONFIG SET maxmemory-samples 7 hz x",
    "CONFIG GET maxmemory-samples",
    "CONFIG SET maxmemory-samples 7",
    "CONFIG GET maxmemory-samples",
    "CONFIG SET maxmemory-samples 5",
    "CONFIG SET databases 3",
    "CONFIG REWRITE",
    "CONFIG RESETSTAT x",
    "CONFIG RESETSTAT",
    "ROLE",
    "ROLE x",
    "TIME x",
    "LASTSAVE x",
    "SAVE",
    "SAVE x",
    "BGSAVE x",
    "BGSAVE SCHEDULE x",
    "LOLWUT VERSION x",
    "INFO cluster",
    "INFO nosuch",
    "SLOWLOG",
    "SLOWLOG NOPE",
    "SLOWLOG RESET",
    "SLOWLOG LEN",
    "SLOWLOG LEN x",
    "SLOWLOG GET",
    "SLOWLOG GET -1",
    "SLOWLOG GET -2",
    "SLOWLOG GET x",
    "SLOWLOG GET 1 2",
    "SHUTDOWN x",
    "SHUTDOWN SAVE NOSAVE",
    "SHUTDOWN ABORT",
    "SHUTDOWN ABORT NOW",
    "SHUTDOWN ABORT ABORT",
    "DEBUG",
    "DEBUG NOPE",
    "DEBUG SLEEP",
    "DEBUG SLEEP 0",
    "DEBUG SLEEP 0 0",
    "DEBUG ERROR NOPE",
    "DEBUG ERROR a b",
    "DEBUG OBJECT",
    "DEBUG OBJECT nosuch",
    "DEBUG SET-ACTIVE-EXPIRE",
    "DEBUG SET-ACTIVE-EXPIRE 1",
    "DEBUG POPULATE x",
    "DEBUG RELOAD x",
    "CLIENT LIST TYPE no\0pe",
    *(
        f"DEBUG PROTOCOL {kind}"
        for kind in (
            *("string", "integer", "double", "bignum", "null", "array", "set"),
            *("verbatim", "true", "false", "nope"),
        )
    ),
]


def test_the_same_words(pair: Pair) -> None:
    for line in SAME:
        pair.same(*line.split())


def test_populate(pair: Pair) -> None:
    pair.same("SET", "p:1", "mine")
    pair.same("DEBUG", "POPULATE", 3, "p", 9)
    for name in ("p:0", "p:1", "p:2", "p:3"):
        pair.same("GET", name)
    pair.same("DEBUG", "POPULATE", 2)
    pair.same("GET", "key:1")


def test_reload_keeps_everything(pair: Pair) -> None:
    pair.same("SET", "s", "1")
    pair.same("RPUSH", "l", "a", "b")
    pair.same("EXPIRE", "s", 100)
    pair.same("DEBUG", "RELOAD")
    pair.same("GET", "s")
    pair.same("TTL", "s")
    pair.same("LRANGE", "l", 0, -1)
    pair.same("DBSIZE")


def test_slow_log_entries(pair: Pair) -> None:
    """All but id, time and duration, which differ."""
    pair.same("CONFIG", "SET", "slowlog-log-slower-than", 0)
    pair.same("SLOWLOG", "RESET")
    pair.same("RPUSH", "l", *range(50))
    pair.same("SET", "k", b"x" * 300)
    pair.same("CONFIG", "SET", "masterauth", "secret", "hz", 10)
    pair.same("CONFIG", "SET", "masterauth", "")
    pair.same("HELLO", 3, "AUTH", "nobody", "secret")
    pair.send(b"MULTI\r\nGET k\r\nEXEC\r\n")
    for _ in range(3):
        pair.same_reply()
    pair.same("CONFIG", "SET", "slowlog-log-slower-than", -1)
    ours, oracle = (
        re.sub(
            rb"(\*6\r\n):\d+\r\n:\d+\r\n:\d+|127.0.0.1:\d+",
            rb"\1",
            client.command("SLOWLOG", "GET", -1),
        )
        for client in (pair.ours, pair.oracle)
    )
    assert ours == oracle
    assert b"secret" not in ours
    assert b"more arguments" in ours
    assert b"more bytes" in ours
    pair.same("SLOWLOG", "LEN")
    pair.same("CONFIG", "SET", "slowlog-log-slower-than", 10000)
    pair.same("SLOWLOG", "RESET")


def test_keyspace_section(pair: Pair) -> None:
    pair.same("SET", "a", "1")
    pair.same("SET", "b", "1", "EX", 1000)
    pair.same("SET", "c", "1", "EX", 1000)
    pair.same("PERSIST", "c")
    pair.same("SELECT", 3)
    pair.same("SET", "a", "1")
    pair.same("SELECT", 0)
    # Redis's own average is 0 until its cron has come by.
    ours, theirs = (
        re.sub(rb"avg_ttl=\d+|^[$=]\d+", b"", client.command("INFO", "keyspace"))
        for client in (pair.ours, pair.oracle)
    )
    assert ours == theirs
    assert b"db0:keys=3,expires=1," in ours
