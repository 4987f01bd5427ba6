"""What the log says about settings: of a stock redis.conf a few lines, of no setting none."""

from logging import INFO, WARNING
from pathlib import Path

import pytest

from holdfast.log_lines import VERBOSE
from holdfast.server.config.config import Config
from holdfast.server.config.remarks import Remark, remarks
from tests.harness import HoldfastServer

# The lines of Debian's redis.conf that are not Redis's defaults here.
STOCK = """\
bind 127.0.0.1 -::1
daemonize yes
always-show-logo no
stop-writes-on-bgsave-error yes
dbfilename dump.rdb
replica-serve-stale-data yes
appendonly no
appendfilename "appendonly.aof"
appendfsync everysec
auto-aof-rewrite-min-size 64mb
client-output-buffer-limit normal 0 0 0
jemalloc-bg-thread yes
"""
DEBIAN = Path("/etc/redis/redis.conf")


def said(*options: str, file: Path | None = None) -> list[Remark]:
    return list(remarks(Config.from_sources(file, options)))


def test_defaults_need_no_remark(tmp_path: Path) -> None:
    assert said("--dir", str(tmp_path)) == []


def test_a_stock_redis_conf(tmp_path: Path) -> None:
    file = tmp_path / "redis.conf"
    file.write_text(STOCK)
    assert said("--dir", str(tmp_path), file=file) == [
        Remark(
            WARNING,
            "appendfsync",
            f"appendfsync everysec ({file}, line 9): a power cut may lose about the last second of"
            " acknowledged writes; 'appendfsync always' loses none",
        ),
        Remark(
            INFO,
            "appendonly",
            f"appendonly no ({file}, line 7) has no effect: every write is in the journal, which"
            " cannot be turned off",
        ),
        Remark(
            WARNING,
            "daemonize",
            f"daemonize yes ({file}, line 2) has no effect: the server stays in the foreground; run"
            " it as a service instead",
        ),
    ]


@pytest.mark.skipif(not DEBIAN.is_file(), reason="Debian's redis-server is not installed")
def test_the_redis_conf_of_debian_needs_no_more(tmp_path: Path) -> None:
    names = [remark.setting for remark in said("--dir", str(tmp_path), file=DEBIAN)]
    assert names == ["appendfsync", "appendonly", "daemonize"]


@pytest.mark.parametrize(
    ("options", "level", "words"),
    [
        (["--appendfsync", "no"], WARNING, "has not written to disk yet"),
        (["--cluster-enabled", "yes"], WARNING, "no part of a cluster"),
        (["--syslog-enabled", "yes"], WARNING, "not to syslog"),
        (["--save", "900", "1"], INFO, "there are no snapshots"),
        (["--io-threads", "4", "--rdbcompression", "no"], INFO,
         "these settings have no effect here: io-threads, rdbcompression"),
        (["--supervised", "upstart"], WARNING, "only systemd is told"),
        (["--maxmemory", "1gb"], VERBOSE, "bounds memory, not data"),
        (["--db", ":memory:", "--appendfsync", "no"], INFO, "keeps nothing"),
    ],
)  # fmt: skip
def test_one_remark(tmp_path: Path, options: list[str], level: int, words: str) -> None:
    (remark,) = said("--dir", str(tmp_path), *options)
    assert remark.level == level
    assert words in remark.sentence


def test_data_of_redis_is_not_taken_over_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "dump.rdb").touch()
    (tmp_path / "appendonlydir").mkdir()
    rdb, aof = said("--dir", str(tmp_path))
    assert rdb.sentence.startswith(f"{tmp_path}/dump.rdb is not read: ")
    assert aof.sentence.startswith(f"{tmp_path}/appendonlydir is not read: ")
    (tmp_path / "holdfast.db").touch()
    assert said("--dir", str(tmp_path)) == [], "it has data of its own by now"


def test_a_server_says_what_it_promises(tmp_path: Path) -> None:
    file = tmp_path / "redis.conf"
    file.write_text(STOCK)
    with HoldfastServer(tmp_path / "s", "--config", str(file)) as server:
        assert server.stdout.endswith(", appendfsync: everysec)\n")
        assert server.stderr.count(" a power cut may lose about the last second ") == 1
        client = server.client()
        client.command("CONFIG", "SET", "appendfsync", "always")
        client.command("CONFIG", "SET", "appendfsync", "no")
        assert server.terminate() == 0
    assert "appendfsync no (CONFIG SET): a power cut may lose " in server.stderr
