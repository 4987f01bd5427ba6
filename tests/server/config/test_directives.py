"""Configuration files and command lines: reading, complaining, rewriting."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import CommandError, ConfigError
from holdfast.server.config.config import Config
from holdfast.server.config.directives import split_args
from holdfast.server.config.parameters import TABLE
from holdfast.server.config.value_kinds import quoted
from tests.harness import RawClient, RedisServer

Load = Callable[..., Config]

OCTAL = "argument couldn't be parsed as an octal number"
SUPERVISED = "argument(s) must be one of the following: upstart, systemd, auto, no"
NO_PATH = "appendfilename can't be a path, just a filename"


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str | bytes, *options: str) -> Config:
        file = tmp_path / "test.conf"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Config.from_sources(file, options)

    return load


def complaint(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", []),
        (b" \t a  b\tc ", [b"a", b"b", b"c"]),
        (b"a \"b c\" 'd e'", [b"a", b"b c", b"d e"]),
        (b'""', [b""]),
        (b"''", [b""]),
        (b'"\\x41\\n\\r\\t\\b\\a\\\\\\"\\q"', [b'A\n\r\t\b\a\\"q']),
        (b'"\\x4g"', [b"x4g"]),
        (b"'it\\'s \\n'", [b"it's \\n"]),
        (b'a"b c"', [b"ab c"]),
        (b'"a"b', None),
        (b"'a'b", None),
        (b'"a', None),
        (b"'a", None),
        (b'"a\\', None),
        (b'"a\\"', None),
        (b"a\\ b", [b"a\\", b"b"]),
    ],
)
def test_a_line_splits_as_in_redis(line: bytes, words: list[bytes] | None) -> None:
    assert split_args(line) == words


def test_inline_commands_of_redis_split_the_same(oracle: RedisServer, rng: random.Random) -> None:
    """ECHO as an inline command goes through the same rules."""
    for _ in range(400):
        line = b"ECHO " + bytes(rng.choices(b"\"'\\x41 anb\t", k=rng.randrange(1, 8)))
        words = split_args(line)
        client = oracle.client()
        client.send(line + b"\r\n")
        reply = client.read_reply()
        client.close()
        if words is None:
            assert reply == b"-ERR Protocol error: unbalanced quotes in request\r\n", line
        elif len(words) != 2:
            assert reply.startswith(b"-ERR wrong number of arguments"), line
        else:
            assert reply == b"$%d\r\n%s\r\n" % (len(words[1]), words[1]), line


def test_a_quoted_text_is_read_back(rng: random.Random) -> None:
    for _ in range(200):
        text = rng.randbytes(rng.randrange(20))
        assert split_args(quoted(text)) == [text]


def test_a_file_is_read(load: Load) -> None:
    config = load(
        b"# a comment\r\n"
        b"\n"
        b"  PORT 7000\r\n"
        b"save 3600 1 300 100\n"
        b"bind 127.0.0.1 -::1\n"
        b'requirepass "a \\"b\\" \\xff"\n'
        b"\tmaxmemory   100mb  \n"
        b"client-output-buffer-limit normal 1mb 0 0\n"
        b"client-output-buffer-limit pubsub 2mb 1mb 9\n"
        b"slave-priority 5\n"
        b"rename-command FLUSHALL ''\n"
        b"rename-command CONFIG hidden\n"
        b"user alice on >x ~*\n"
        b"unixsocketperm 700\n"
        b"list-max-ziplist-entries 3"
    )
    assert config.port == 7000
    assert config.save == ((3600, 1), (300, 100))
    assert config.bind == ("127.0.0.1", "-::1")
    assert config.requirepass == b'a "b" \xff'
    assert config.maxmemory == 100 << 20
    assert config.client_output_buffer_limit == (
        (1 << 20, 0, 0),
        (256 << 20, 64 << 20, 60),
        (2 << 20, 1 << 20, 9),
    )
    assert config.get(b"replica-priority") == [(b"replica-priority", b"5")]
    assert config.rename_command == ((b"FLUSHALL", b""), (b"CONFIG", b"hidden"))
    assert config.user == ((b"alice", b"on", b">x", b"~*"),)
    assert config.unixsocketperm == 0o700


def test_lines_of_save_points_add_up_until_an_empty_one(load: Load) -> None:
    assert load("save 900 1\nsave 300 10").save == ((900, 1), (300, 10))
    assert load('save 900 1\nsave ""').save == ()
    assert load('save 900 1\nsave ""\nsave 300 10').save == ((300, 10),)
    assert load("save 900 1", "--save", "300", "10").save == ((900, 1), (300, 10))
    assert load("save 900 1", "--save", "--port", "1").save == ()
    assert load('save "900 1 300 10"').save == ((900, 1), (300, 10))


def test_files_include_each_other(load: Load, tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("hz 20\ntimeout 5")
    (tmp_path / "b.conf").write_text("timeout 6")
    config = load(f"timeout 1\ninclude {tmp_path}/[ab].conf\nhz 30\ninclude {tmp_path}/no*.conf")
    assert (config.timeout, config.hz) == (6, 30)


def test_the_redis_conf_of_debian_is_accepted(load: Load, tmp_path: Path) -> None:
    source = Path("/etc/redis/redis.conf")
    if not os.access(source, os.R_OK):
        pytest.skip("there is no redis.conf to read")
    text = source.read_text().replace("dir /var/lib/redis", f"dir {tmp_path}")
    config = load(text)
    assert config.dir == str(tmp_path)
    assert config.appendfsync == "everysec"
    assert "daemonize" in config.without_effect()


def test_options_follow_the_file(load: Load) -> None:
    config = load(
        *("port 1\nhz 20", "--PORT", "2", "--bind", "127.0.0.1", "::1", "--maxmemory=1gb"),
        *("--slowlog-log-slower-than", "-1", "--requirepass=--x", "--rename-command", "A", ""),
        *("--client-output-buffer-limit", "normal 1 2 3", "--notify-keyspace-events", ""),
    )
    assert (config.port, config.hz, config.bind) == (2, 20, ("127.0.0.1", "::1"))
    assert (config.maxmemory, config.requirepass) == (1 << 30, b"--x")
    assert config.slowlog_log_slower_than == -1
    assert config.rename_command == ((b"A", b""),)
    assert config.client_output_buffer_limit.normal == (1, 2, 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\n# x\nfoo bar", "line 3: unknown directive 'foo'"),
        ("prot 1", "line 1: unknown directive 'prot' (did you mean 'port'?)"),
        ("port abc", "line 1: directive 'port': argument couldn't be parsed into an integer"),
        ("port 70000", "line 1: directive 'port': argument must be between 0 and 65535 inclusive"),
        ("hz 10 20", "line 1: directive 'hz': wrong number of arguments"),
        ("hz", "line 1: directive 'hz': a value is missing"),
        ('hz "10', "line 1: unbalanced quotes"),
        ("rename-command A", "line 1: directive 'rename-command': wrong number of arguments"),
        ("rename-command A B C", "line 1: directive 'rename-command': wrong number of arguments"),
        ("include", "line 1: directive 'include': wrong number of arguments"),
        ("unixsocketperm 900", "line 1: directive 'unixsocketperm': " + OCTAL),
        ("dir /nonexistent", "line 1: directive 'dir': No such file or directory"),
        ("replicaof a", "line 1: directive 'replicaof': wrong number of arguments"),
        ("replicaof a x", "line 1: directive 'replicaof': Invalid master port"),
        ("supervised maybe", "line 1: directive 'supervised': " + SUPERVISED),
        ("appendfilename a/b", "line 1: directive 'appendfilename': " + NO_PATH),
        ("loadmodule x.so", "line 1: unknown directive 'loadmodule'"),
    ],
)
def test_a_broken_line_is_named(load: Load, tmp_path: Path, text: str, reason: str) -> None:
    assert complaint(lambda: load(text)) == f"{tmp_path}/test.conf, {reason}"


def test_a_file_that_is_no_configuration_is_named(load: Load, tmp_path: Path) -> None:
    said = complaint(lambda: load(b"SQLite format 3\0" + bytes(range(256)) * 100))
    assert said == f"{tmp_path}/test.conf, line 1: unknown directive 'SQLite'"
    assert complaint(lambda: load(b"\x1b[2J" * 99)).isprintable()


def test_a_file_that_cannot_be_read_is_named(load: Load, tmp_path: Path) -> None:
    missing, folder = tmp_path / "no.conf", tmp_path
    assert complaint(lambda: Config.from_sources(missing)) == (
        f"cannot read configuration file {missing}: No such file or directory"
    )
    assert complaint(lambda: Config.from_sources(folder)) == (
        f"cannot read configuration file {folder}: Is a directory"
    )
    assert str(missing) in complaint(lambda: load(f"include {missing}"))
    itself = f"include {tmp_path}/test.conf"
    assert "too deeply" in complaint(lambda: load(itself))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--foo", "1"], "unknown option '--foo'"),
        (["--max-memory", "1"], "unknown option '--max-memory' (did you mean '--maxmemory'?)"),
        (["--port", "x"], "option '--port': argument couldn't be parsed into an integer"),
        (["--port"], "option '--port': a value is missing"),
        (["--port", "1", "2"], "option '--port': wrong number of arguments"),
        (["port", "1"], "unexpected argument 'port'"),
        (["--"], "unexpected argument '--'"),
        (["-p", "1"], "unexpected argument '-p'"),
    ],
)
def test_a_wrong_option_is_named(options: list[str], said: str) -> None:
    assert complaint(lambda: Config.from_sources(None, options)) == said


FILE = """\
# my comment
port 7005

   # indented
HZ 12
save 900 1
save 300 10
bind 127.0.0.1
maxmemory   1gb
slave-priority 10
timeout 5
rename-command FLUSHALL ""
# the end
"""


def test_rewriting_changes_only_the_lines_that_are_not_true(load: Load) -> None:
    config = load(FILE, "--timeout", "6")
    assert config.file is not None
    config.file.chmod(0o600)
    config.set_many(
        [
            (b"maxmemory", b"3mb"),
            (b"save", b"100 2"),
            (b"slave-priority", b"11"),
            (b"requirepass", b'a "b\\ \xff'),
            (b"maxmemory-clients", b"5%"),
            (b"hz", b"12"),
            (b"loglevel", b"notice"),
        ]
    )
    config.rewrite()
    assert config.file.read_text() == (
        FILE.replace("save 900 1\nsave 300 10\n", "save 100 2\n")
        .replace("maxmemory   1gb", "maxmemory 3mb")
        .replace("slave-priority 10", "replica-priority 11")
        .replace("timeout 5", "timeout 6")
        + '\n# Generated by CONFIG REWRITE\nmaxmemory-clients 5%\nrequirepass "a \\"b\\\\ \\xff"\n'
    )
    assert config.file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(config.file.parent) == ["test.conf"]
    before = config.file.stat().st_ino
    config.rewrite()
    assert config.file.stat().st_ino == before, "nothing to change, nothing written"
    config.set_many([(b"hll-sparse-max-bytes", b"1000")])
    config.rewrite()
    assert config.file.read_text().count("Generated") == 1
    assert config.file.read_text().endswith("hll-sparse-max-bytes 1000\n")


def test_lines_move_behind_the_files_that_would_overrule_them(load: Load, tmp_path: Path) -> None:
    (tmp_path / "a.conf").write_text("hz 20")
    config = load(f"hz 15\ninclude {tmp_path}/a.conf\n")
    config.set_many([(b"hz", b"30")])
    config.rewrite()
    assert Config.from_sources(config.file).hz == 30


def test_a_file_that_would_not_come_back_the_same_is_not_written(
    load: Load, tmp_path: Path
) -> None:
    (tmp_path / "a.conf").write_text("save 1 1")
    text = f"include {tmp_path}/a.conf\n"
    config = load(text)
    config.set_many([(b"save", b"2 2")])
    with pytest.raises(CommandError, match="an included file decides about 'save'"):
        config.rewrite()
    assert config.file is not None
    assert config.file.read_text() == text
    assert sorted(os.listdir(tmp_path)) == ["a.conf", "test.conf"]


def test_every_parameter_survives_rewriting(load: Load) -> None:
    config = load("")
    other = {
        *((b"save", b"1 2 3 4"), (b"bind", b"1.2.3.4 ::1"), (b"dir", b"/tmp"), (b"hz", b"77")),
        *((b"client-output-buffer-limit", b"normal 1 2 3"), (b"notify-keyspace-events", b"KA")),
        *((b"latency-tracking-info-percentiles", b""), (b"oom-score-adj-values", b"1 2 3")),
        *((b"maxmemory", b"1025"), (b"shutdown-on-sigint", b"now force"), (b"masterauth", b"\n")),
        *((b"unixsocketperm", b"755"), (b"replicaof", b"h 1"), (b"loglevel", b"debug")),
        *((b"appendonly", b"no"), (b"logfile", b"a 'b"), (b"rename-command", b"A B")),
        *((b"user", b"bob on"), (b"proto-max-bulk-len", b"3mb"), (b"db", b"caf\xc3\xa9 x")),
    }
    for name, value in other:
        config.put(name.decode(), value.decode())
    config.rewrite()
    again = Config.from_sources(config.file)
    for param in TABLE:
        assert getattr(again, param.attribute) == getattr(config, param.attribute), param.name


def test_without_a_file_there_is_nothing_to_rewrite(oracle_client: RawClient) -> None:
    with pytest.raises(CommandError) as caught:
        Config().rewrite()
    assert b"-" + caught.value.message + b"\r\n" == oracle_client.command("CONFIG", "REWRITE")


def test_a_file_that_vanished_is_written_anew(load: Load) -> None:
    config = load("port 1\n")
    assert config.file is not None
    config.file.unlink()
    config.rewrite()
    assert Config.from_sources(config.file).port == 1


def test_a_file_that_cannot_be_replaced_stays(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load("port 1\n")
    config.set_many([(b"port", b"2")])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CommandError, match="ERR Rewriting config file: No space left on device"):
        config.rewrite()
    assert config.file is not None
    assert config.file.read_text() == "port 1\n"
    assert os.listdir(config.file.parent) == ["test.conf"]


def test_a_file_broken_meanwhile_is_not_touched(load: Load) -> None:
    config = load("port 1\n")
    assert config.file is not None
    config.file.write_text("port x\n")
    with pytest.raises(CommandError, match=r"ERR Rewriting config file: .*line 1"):
        config.rewrite()
    assert config.file.read_text() == "port x\n"


def test_a_link_to_the_file_stays_a_link(load: Load, tmp_path: Path) -> None:
    load("port 1\n")
    link = tmp_path / "link.conf"
    link.symlink_to(tmp_path / "test.conf")
    config = Config.from_sources(link)
    config.set_many([(b"port", b"2")])
    config.rewrite()
    assert link.is_symlink()
    assert (tmp_path / "test.conf").read_text() == "port 2\n"


def test_redis_reads_a_file_that_we_rewrote(tmp_path: Path) -> None:
    """And shows the same values, for all but the parameters that are ours."""
    file = tmp_path / "shared.conf"
    file.write_text(FILE.replace("port 7005\n", ""))
    config = Config.from_sources(file)
    changes = [
        (b"maxmemory", b"1500000"),
        (b"save", b"100 2 50 3"),
        (b"notify-keyspace-events", b"KExg"),
        (b"client-output-buffer-limit", b"normal 1mb 2mb 3"),
        (b"proto-max-bulk-len", b"3gb"),
        (b"maxmemory-clients", b"7%"),
        (b"masterauth", b'x "y\\ \xff\n'),
        (b"latency-tracking-info-percentiles", b"0.5 99"),
        (b"shutdown-on-sigterm", b"save now"),
        (b"oom-score-adj-values", b"1 2 3"),
        (b"replica-priority", b"3"),
    ]
    config.set_many(changes)
    config.rewrite()
    with RedisServer(tmp_path / "redis", "--include", str(file)) as server:
        client = server.client()
        for name, _ in changes:
            shown = dict(config.get(name))[name]
            assert client.command("CONFIG", "GET", name) == (
                b"*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(name), name, len(shown), shown)
            )
