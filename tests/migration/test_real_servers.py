"""Files go from Redis and Valkey through Holdfast and back; the contents stay the same."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RedisServer
from tests.harness.valkey import ValkeyServer
from tests.migration.contents import (
    connect,
    contents,
    fill,
    functions,
    raw_contents,
    without_seen,
)

Start = Callable[..., HoldfastServer]


def holdfast(*args: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "holdfast", *map(str, args)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    return done


@pytest.mark.parametrize(
    ("server", "rdb_format"), [(RedisServer, "redis7"), (ValkeyServer, "valkey9")]
)
def test_a_dump_goes_in_and_out(
    server: type[RedisServer],
    rdb_format: str,
    tmp_path: Path,
    rng: random.Random,
    start_server: Start,
) -> None:
    has_field_expiry = server is ValkeyServer
    options = ("--dir", ".", *(("--enable-debug-command", "yes") if has_field_expiry else ()))
    db, exported = tmp_path / "app.db", tmp_path / "second" / "dump.rdb"
    exported.parent.mkdir()
    with server(tmp_path / "first", *options) as first:
        fill(first.port, rng, expiring_fields=has_field_expiry)
        with connect(first.port) as client:
            client.save()
        before, raw_before, library = (
            contents(first.port),
            raw_contents(first.port),
            functions(first.port),
        )
    report = json.loads(holdfast("import", first.folder / "dump.rdb", "--db", db, "--json").stdout)
    assert report["keys"] == len(before)
    assert report["databases"] == [0, 3, 15]
    assert holdfast("check", db).stdout.endswith("no problems found\n")
    ours = start_server(db=db)
    assert contents(ours.port) == before
    assert functions(ours.port) == library
    # The file is in use: an export takes it as it is at this moment.
    holdfast("export", "--db", db, exported, "--format", rdb_format)
    if (check := shutil.which("redis-check-rdb")) and rdb_format == "redis7":
        checked = subprocess.run([check, exported], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout
    with server(exported.parent, *options) as second:
        assert contents(second.port) == before
        assert raw_contents(second.port) == raw_before
        assert functions(second.port) == library


@pytest.mark.parametrize("preamble", ["yes", "no"])
def test_append_only_files(
    preamble: str, tmp_path: Path, rng: random.Random, start_server: Start
) -> None:
    """A base with RDB or with commands, a file that follows it, and a last command that is cut."""
    options = ("--dir", ".", "--appendonly", "yes", "--aof-use-rdb-preamble", preamble)
    with RedisServer(tmp_path / "redis", *options, "--aof-timestamp-enabled", "yes") as redis:
        fill(redis.port, rng)
        with connect(redis.port) as client:
            client.execute_command("SET", "short", "x", "PX", 1)
            client.bgrewriteaof()
            client.execute_command("MULTI")
            client.execute_command("INCR", "counter")
            client.execute_command("RPUSH", "list", "c")
            client.execute_command("EXEC")
            client.execute_command("EVAL", "return redis.call('SPOP', KEYS[1], 7)", 1, "set:200")
            client.execute_command("HINCRBYFLOAT", "hash:1", "n", "0.1")
            client.execute_command("RENAME", "zset:20", "renamed")
            # Redis writes the exact length that is left, and the LIMIT that it was given.
            for number in range(250):
                limit = ("MAXLEN", "~", 150, "LIMIT", 100) if number == 249 else ()
                client.execute_command("XADD", "trimmed", *limit, f"{number + 1}-1", "a", "b")
            client.execute_command("XTRIM", "trimmed", "MINID", "~", "200-1", "LIMIT", 100)
            client.config_set("appendonly", "no")  # writes all, and closes the file
        before, library = without_seen(contents(redis.port)), functions(redis.port)
    folder = redis.folder / "appendonlydir"
    manifest = (folder / "appendonly.aof.manifest").read_text()
    last = folder / manifest.splitlines()[-1].split()[1]
    with last.open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$5\r\nhalf")
    db = tmp_path / "app.db"
    report = json.loads(holdfast("import", folder, "--db", db, "--json").stdout)
    assert f"{last} ends inside of a command, which is left out" in report["notes"]
    assert report["libraries"] == 1
    ours = start_server(db=db)
    found = without_seen(contents(ours.port))
    found.pop((0, b"short"), None)
    before.pop((0, b"short"), None)
    assert found == before
    assert functions(ours.port) == library
