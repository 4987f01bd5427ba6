"""The table and CONFIG GET and SET, held against redis-server's."""

import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import CommandError, ConfigError
from holdfast.server.config.config import Config
from holdfast.server.config.parameters import BY_NAME, TABLE, Use
from tests.harness import RawClient, RedisServer

OURS = {
    "db": "the file is ours",
    "active-active-log-limit": "servers that share a database are ours",
    "blocking-max-waiters-per-key": "limits of blocking pops are ours",
    "blocking-max-total-waiters": "limits of blocking pops are ours",
    "huge-pages": "Redis forks, for which they are bad; we do not",
    "blocking-max-keys-per-wait": "limits of blocking pops are ours",
    "blocking-wakeup-batch-size": "limits of blocking pops are ours",
    "auth-timeout": "the time to sign in is ours",
    "redis-version": "Redis knows its own",
    "http-port": "metrics are ours",
    "dashboard": "the dashboard is ours",
    "dashboard-bind": "the dashboard is ours",
    "dashboard-port": "the dashboard is ours",
    "http-bind": "metrics are ours",
    "fold-age-ms": "the fold is ours",
    "replica-skip-unknown": "types that are not here are ours",
    "lua-hard-time-limit": "limits of scripts are ours",
    "lua-max-memory": "limits of scripts are ours",
    "set-max-listpack-entries": "Redis 7.2",
    "set-max-listpack-value": "Redis 7.2",
    "locale-collate": "Redis 7.2",
    "cluster-announce-human-nodename": "Redis 7.2",
    **dict.fromkeys(
        [
            *("commandlog-execution-slower-than", "commandlog-slow-execution-max-len"),
            *("commandlog-request-larger-than", "commandlog-large-request-max-len"),
            *("commandlog-reply-larger-than", "commandlog-large-reply-max-len"),
        ],
        "Valkey 8.1",
    ),
    "stream-idmp-duration": "Redis 8.6",
    "stream-idmp-maxsize": "Redis 8.6",
}
DIFFERENT = {
    "appendonly": "every write is in the journal",
    "appendfsync": "nothing is acknowledged that could be lost",
    "bind": "what redis.conf says, instead of every interface",
    "client-output-buffer-limit": "a normal client's output is bounded",
    "dir": "another folder",
    "port": "another port",
    "save": "there are no snapshots",
    "enable-debug-command": "the oracle was started with it",
    "enable-protected-configs": "the oracle was started with it",
}
TAKEN_UP_HERE = {
    "activedefrag": "Debian's Redis was built without it and refuses; here it means nothing",
    "tls-port": "Redis tries to listen",
    "tls-cluster": "Redis looks for a certificate",
    "tls-replication": "Redis looks for a certificate",
    "watchdog-period": "Redis has a smallest one; here it means nothing",
}


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    """One of our own, since these tests change it."""
    with RedisServer(
        tmp_path_factory.mktemp("oracle"), "--enable-protected-configs", "yes"
    ) as server:
        yield server.client()


def strings(reply: bytes) -> list[bytes]:
    return reply.split(b"\r\n")[2::2]


def their_config(oracle: RawClient, pattern: str | bytes = "*") -> dict[str, str]:
    words = [word.decode() for word in strings(oracle.command("CONFIG", "GET", pattern))]
    return dict(zip(words[::2], words[1::2], strict=True))


def our_config(config: Config, pattern: bytes = b"*") -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in config.get(pattern)}


def set_here(config: Config, *words: bytes) -> bytes:
    try:
        config.set_many(list(zip(words[::2], words[1::2], strict=True)))
    except CommandError as error:
        return b"-" + error.message + b"\r\n"
    return b"+OK\r\n"


@pytest.fixture
def config() -> Config:
    return Config({"enable-protected-configs": "yes"})


def test_the_parameters_are_those_of_redis(config: Config, oracle: RawClient) -> None:
    assert our_config(config).keys() - OURS.keys() == their_config(oracle).keys()


def test_the_defaults_are_those_of_redis(config: Config, oracle: RawClient) -> None:
    ours, theirs = our_config(config), their_config(oracle)
    different = {name for name in theirs if ours[name] != theirs[name]}
    assert different <= DIFFERENT.keys()


def test_values_of_python() -> None:
    config = Config({"active_active": True, "huge_pages": False, "maxclients": 7})
    assert (config.active_active, config.huge_pages, config.maxclients) == (True, False, 7)


def test_our_own_defaults() -> None:
    config = Config()
    assert (config.appendonly, config.appendfsync, config.save) == (True, "always", ())
    assert config.blocking_max_waiters_per_key == 10_000
    assert config.blocking_max_total_waiters == 50_000
    assert config.blocking_max_keys_per_wait == 128
    assert config.blocking_wakeup_batch_size == 1
    assert config.client_output_buffer_limit.normal.hard_bytes == 256 << 20


# fmt: off
VALUES = {
    "bool": [b"yes", b"no", b"YES", b"nO", b"", b"1", b"true", b" yes", b"yes "],
    "int": [b"0", b"1", b"7", b"-1", b"-0", b"+1", b"01", b"", b" 1", b"1 ", b"1.0", b"1e1", b"x",
        b"0x1", b"50", b"100", b"101", b"1000", b"65535", b"65536", b"2147483647", b"2147483648",
        b"-2147483648", b"-2147483649", b"4294967295", b"4294967296", b"9223372036854775807",
        b"9223372036854775808", b"-9223372036854775808", b"1\n", b"1k"],
    "memory": [b"0", b"1", b"100mb", b"1k", b"1KB", b"2m", b"2Mb", b"3g", b"3gB", b"12b", b"b",
        b"", b"kb", b"-1", b"+1", b"1.5mb", b"1 mb", b"mb1", b"1tb", b"1kbb", b"0x10",
        b"9223372036854775807", b"9223372036854775808", b"18446744073709551615",
        b"18446744073709551616", b"99999999999999999999gb", b"18446744073709551615k", b"5%",
        b"0" * 127 + b"1", b"0" * 126 + b"1", b"7\0", b"7\0x", b"\0", b"7k\0"],
    "save": [b"", b"1 1", b"3600 1 300 100 60 10000", b"3600", b"a b", b"0 1", b"1 0", b"1 -1",
        b"1  1", b" 1 1", b"1 1 ", b" ", b'"1" 1', b"1 1 1"],
    "client-output-buffer-limit": [b"normal 1mb 1kb 10", b"replica 1mb 1kb 10 pubsub 0 0 0",
        b"slave 2 2 2", b"master 0 0 0", b"foo 0 0 0", b"normal x 0 0", b"normal 0 x 0", b"",
        b"normal 0 0 x", b"normal 0 0 -1", b"normal 0 0", b"normal 0 0 0 normal 5 5 5", b"x",
        b"NORMAL 0 0 0 Pubsub 5 5 5", b"normal 0 0 0  pubsub 1 1 1", b" "],
    "notify-keyspace-events": [b"KEA", b"KgxElshz$e", b"AK", b"K", b"Ex", b"n", b"tmdn", b"",
        b"g$lshzxetd", b"Ag$lshzxeKEtmdn", b"E$g$", b"KAn", b"xKAmn"],
    "oom-score-adj-values": [b"1 2", b"1 2 x", b"1 2 3", b"3 2 1", b"-2001 2 1", b"1 2 3 4", b"",
        b"1 2 2001", b"-2000 0 2000", b"0 200 800"],
    "oom-score-adj": [b"yes", b"relative", b"no", b"maybe"],
    "latency-tracking-info-percentiles": [b"50 99.99 100.0", b"", b"101", b"0.0000001 1e1", b"-1",
        b"nan", b"inf", b"0.1 50.5 0", b"x", b"50  60", b" 50", b".5", b"5.", b"100.0001", b"0",
        b"0x10", b"0x1p-3", b"1e-400", b"-1e400", b"1e400", b"infinity", b"+5", b"-0", b"5\0"],
    "maxmemory-clients": [b"5%", b"0%", b"100%", b"101%", b"-5%", b"1mb", b"5.5%", b"%", b"50%x",
        b"-1", b"", b"9223372036854775807", b"9223372036854775808"],
    "shutdown-on-sigterm": [b"save now", b"save nosave", b"nosave now force", b"force default",
        b"default", b"save save", b"", b"now save foo", b"FORCE"],
    "dbfilename": [b"a/b", b"", b"a b", b"x.rdb"],
    "dir": [b"/tmp", b"/", b"/nonexistent", b"/etc/passwd", b"", b"/tmp/../tmp/"],
    "proc-title-template": [b"{bad}", b"", b"a {port} b", b"{", b"{{title}}", b"}{title", b"x",
        b"{title", b"a}b", b"{{{title}", b"{}", b"  "],
    "cluster-announce-hostname": [b"a.b-c1", b"a_b", b"x" * 255, b"x" * 256, b""],
    "hz": [b"0", b"1", b"500", b"501", b"100000", b"-1"],
    "maxclients": [b"0", b"-1", b"1", b"100", b"x", b"4294967296"],
    "bind": [b" ".join([b"127.0.0.1"] * 17)],
    "requirepass": [b"", b"a b", b"\xff\x00\n", b"x" * 600],
    "masterauth": [b"", b'a "b', b"\xff\x00"],
    "masteruser": [b"", b"caf\xc3\xa9", b"\xff"],
    "loglevel": [b"debug", b"WARNING", b"loud", b"", b"debug notice"],
}
# fmt: on


def values_for(name: str) -> list[bytes]:
    if name in VALUES:
        return VALUES[name]
    kind = type(BY_NAME[name].kind).__name__.lower()
    words = [word.encode() for word in getattr(BY_NAME[name].kind, "words", "").split()]
    return [*VALUES.get(kind, [b"x"]), *words, *(word.upper() for word in words)]


SETTABLE = sorted(
    name
    for name, param in BY_NAME.items()
    if not param.use & (Use.FIXED | Use.FILE) and name not in OURS | TAKEN_UP_HERE | {"port": ""}
)


@pytest.mark.parametrize("name", SETTABLE)
def test_good_and_bad_values(name: str, config: Config, oracle: RawClient) -> None:
    # Afterwards the oracle has its old value again, for it must stay reachable.
    old = strings(oracle.command("CONFIG", "GET", name))[1]
    set_here(config, name.encode(), old)
    for value in values_for(name):
        theirs = oracle.command("CONFIG", "SET", name, value)
        assert set_here(config, name.encode(), value) == theirs, value
        shown = config.get(name.encode())[0][1]
        assert shown == oracle.command("CONFIG", "GET", name).split(b"\r\n", 4)[4][:-2], value
        if name == "requirepass":
            oracle.command("AUTH", value)
    assert oracle.command("CONFIG", "SET", name, old) == b"+OK\r\n"


@pytest.mark.parametrize(
    "words",
    [
        (b"hz", b"10", b"hz", b"20"),
        (b"hz", b"10", b"HZ", b"20"),
        (b"HZ", b"11"),
        (b"HZ", b"x"),
        (b"Slave-Priority", b"x"),
        (b"slave-priority", b"1", b"replica-priority", b"2"),
        (b"hz", b"10", b"foo", b"x"),
        (b"timeout", b"x", b"foo", b"y"),
        (b"daemonize", b"no", b"foo", b"1"),
        (b"DaemoniZe", b"no"),
        (b"hz", b"13", b"daemonize", b"no", b"timeout", b"x"),
        (b"hz", b"x", b"daemonize", b"no"),
        (b"timeout", b"5", b"hz", b"x"),
        (b"timeout", b"x", b"hz", b"x"),
        (b"timeout", b"5", b"hz", b"15"),
        (b"foo\r\nbar", b"1"),
        (b"hz\x00", b"1"),
        (b"", b""),
        (b"\xff", b"1"),
        (b"rename-command", b"a b"),
        (b"user", b"x"),
        (b"include", b"x"),
        (b"watchdog-period", b"0"),
        (b"databases", b"17"),
    ],
)
def test_several_at_once(words: tuple[bytes, ...], config: Config, oracle: RawClient) -> None:
    oracle.command("CONFIG", "SET", "hz", 10, "timeout", 0, "replica-priority", 100)
    assert set_here(config, *words) == oracle.command("CONFIG", "SET", *words)
    for name in words[::2]:
        assert [part for pair in config.get(name) for part in pair] == strings(
            oracle.command("CONFIG", "GET", name)
        )


@pytest.mark.parametrize(
    "patterns",
    [
        ("hz",),
        ("HZ",),
        ("H?",),
        ("nope",),
        ("watchdog-period",),
        ("watch*",),
        ("busy-reply-threshold", "busy*"),
        ("busy*", "BUSY-reply-threshold"),
        ("BUSY-reply-threshold", "busy*"),
        ("save", "hz", "*z"),
        ("*max-*-e*",),
        ("[",),
        ("\\hz",),
        ("h[y-z]",),
        ("slave*", "replica*"),
        ("rename-command",),
        ("",),
    ],
)
def test_patterns(patterns: tuple[str, ...], config: Config, oracle: RawClient) -> None:
    words = strings(oracle.command("CONFIG", "GET", *patterns))
    theirs = dict(zip(words[::2], words[1::2], strict=True))
    ours = dict(config.get(*(pattern.encode() for pattern in patterns)))
    for name in OURS:
        ours.pop(name.encode(), None)
    assert ours.keys() == theirs.keys()


def test_protected_parameters_need_leave(oracle: RawClient) -> None:
    refusal = (
        b"-ERR CONFIG SET failed (possibly related to argument 'dir') - can't set protected config"
    )
    assert set_here(Config(), b"dir", b"/tmp") == refusal + b"\r\n"
    config = Config({"enable-protected-configs": "local"})
    assert set_here(config, b"dir", b"/tmp") == refusal + b"\r\n"
    config.set_many([(b"dir", b"/tmp")], local=True)
    assert config.dir == str(Path("/tmp").resolve())


def test_a_subscriber_hears_of_changes_only() -> None:
    config = Config()
    heard: list[int] = []
    config.subscribe("replica-priority", lambda: heard.append(1))
    config.subscribe("maxmemory", lambda: heard.append(config.maxmemory))
    config.set_many([(b"maxmemory", b"1mb")])
    config.set_many([(b"maxmemory", b"1024kb")])
    with pytest.raises(CommandError):
        config.set_many([(b"maxmemory", b"2mb"), (b"hz", b"x")])
    assert heard == [1 << 20]
    config.set_many([(b"slave-priority", b"7")])
    assert heard == [1 << 20, 1]


def test_when_a_subscriber_cannot_follow_nothing_has_changed() -> None:
    config = Config()
    heard: list[int] = []

    def refuse() -> None:
        if config.port != 6379:
            raise ConfigError("Unable to listen on this port. Check server logs.")

    config.subscribe("maxmemory", lambda: heard.append(config.maxmemory))
    config.subscribe("port", refuse)
    assert set_here(config, b"maxmemory", b"1", b"PORT", b"1", b"hz", b"20") == (
        b"-ERR CONFIG SET failed (possibly related to argument 'port') - "
        b"Unable to listen on this port. Check server logs.\r\n"
    )
    assert (config.maxmemory, config.port, config.hz) == (0, 6379, 10)
    assert heard == [1, 0]


def test_declared_attributes_have_the_declared_types() -> None:
    config = Config.from_sources(
        None, ["--rename-command", "A", "B", "--user", "x", "on", "--save", "1", "1"]
    )
    by_attribute = {param.attribute: param for param in TABLE}
    for name, declared in typing.get_type_hints(Config).items():
        assert name in by_attribute
        value = getattr(config, name)
        assert isinstance(value, typing.get_origin(declared) or declared), name
        if typing.get_origin(declared) is tuple:
            inner = typing.get_args(declared)[0]
            assert all(isinstance(one, typing.get_origin(inner) or inner) for one in value), name


def test_no_parameter_hides_a_method() -> None:
    methods = {name for name in vars(Config) if not name.startswith("__")} | {"file"}
    assert not methods & {param.attribute for param in TABLE}


def test_names_are_unique() -> None:
    names = [name for param in TABLE for name in param.names]
    assert len(names) == len(set(names)) == len(BY_NAME)


def test_parameters_without_effect_are_told_apart() -> None:
    config = Config({"maxmemory": "1mb", "cluster-enabled": "yes", "rdbcompression": "yes"})
    assert config.without_effect() == ["cluster-enabled"]


def test_parameters_that_no_code_reads_are_without_effect() -> None:
    folder = Path(holdfast.__file__).parent
    code = "".join(path.read_text() for path in folder.rglob("*.py") if path.name != "config.py")
    read = {param for param in TABLE if re.search(rf"\.{param.attribute}\b", code)}
    unread = {param.name for param in TABLE if not (param in read or param.content_of)}
    inert = {param.name for param in TABLE if Use.INERT in param.use}
    assert unread - inert == {"dir", "enable-protected-configs"}, "only config.py reads these"


def test_put_sets_even_fixed_parameters() -> None:
    config = Config()
    config.put("databases", "4")
    assert config.databases == 4


def test_files_are_relative_to_the_folder(tmp_path: Path) -> None:
    config = Config({"dir": str(tmp_path), "db": "x.db"})
    assert config.db_path == str(tmp_path / "x.db")
    assert Config({"db": ":memory:"}).db_path == ":memory:"
    assert Config({"db": "/abs/x.db"}).db_path == "/abs/x.db"


def test_all_that_is_shown_can_be_set_to_the_same() -> None:
    """Except for parameters that Redis cannot change, either."""
    config = Config()
    refused = []
    for name, value in config.get(b"*"):
        try:
            config.set_many([(name, value)], local=True)
        except CommandError:
            refused.append(name.decode())
    assert {name for name in refused if Use.OWN in BY_NAME[name].use} == set()
    assert "daemonize" in refused
    with pytest.raises(CommandError, match="immutable"):
        config.set_many([(b"db", b"other.db")])
