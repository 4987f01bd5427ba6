"""Values of 300 MB and a million keys: memory does not grow with the number of keys."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.store.rdb.file_writer import FORMATS, RdbWriter
from holdfast.store.rdb.plain import Plain
from tests.harness import RedisServer
from tests.migration.contents import connect

pytestmark = [pytest.mark.slow, pytest.mark.source_only, pytest.mark.timeout(900)]

MB = 1 << 20


def run(*args: str | Path, most_mb: int) -> str:
    """Run a command that may have so much memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most_mb * MB, most_mb * MB))

    argv = [sys.executable, "-m", "holdfast", *map(str, args)]
    done = subprocess.run(argv, capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 0, done
    return done.stdout


def test_a_million_keys(tmp_path: Path) -> None:
    source, db, out = tmp_path / "dump.rdb", tmp_path / "app.db", tmp_path / "out.rdb"
    with source.open("wb") as file:
        writer = RdbWriter(file.write, FORMATS["redis7"])
        writer.begin({})
        writer.database(0, 1_000_000, 0)
        for number in range(1_000_000):
            if number % 5:
                value = Plain("string", b"value of %d" % number)
            else:
                value = Plain("hash", [(b"field %d" % n, b"%d" % number, None) for n in range(3)])
            writer.entry(b"key:%d" % number, value, None)
        writer.end()
    # A million such keys would take more than 500 MB of memory.
    said = run("import", source, "--db", db, most_mb=450)
    assert "1,000,000 keys (800,000 string, 200,000 hash) imported" in said
    assert "no problems found" in run("check", db, most_mb=2000)
    said = run("export", "--db", db, out, most_mb=450)
    assert "1,000,000 keys" in said
    assert out.stat().st_size == pytest.approx(source.stat().st_size, abs=200)


def test_a_value_of_300_mb(tmp_path: Path) -> None:
    source, db, out = tmp_path / "dump.rdb", tmp_path / "app.db", tmp_path / "out.rdb"
    piece = bytes(range(256)) * 4096
    large = Plain("string", piece * 300)
    with source.open("wb") as file:
        writer = RdbWriter(file.write, FORMATS["redis7"])
        writer.begin({})
        writer.database(0, 3, 0)
        writer.entry(b"before", Plain("string", b"x"), None)
        writer.entry(b"large", large, None)
        writer.entry(b"list", Plain("list", [piece] * 300), None)
        writer.entry(b"after", Plain("string", b"x"), None)
        writer.end()
    del large
    assert "4 keys" in run("import", source, "--db", db, "--dry-run", most_mb=900)
    assert "4 keys" in run("import", source, "--db", db, most_mb=2500)
    assert "4 keys" in run("export", "--db", db, out, most_mb=1500)
    assert out.stat().st_size == pytest.approx(source.stat().st_size, abs=200)


def test_values_of_300_mb_between_servers(tmp_path: Path) -> None:
    """By PSYNC, by DUMP, and in pieces into a server."""
    options = ("--repl-diskless-sync-delay", "0")
    with RedisServer(tmp_path / "one", *options) as one, RedisServer(tmp_path / "two") as two:
        with connect(one.port) as client:
            client.set("large", b"x" * MB)
            for _ in range(299):
                client.append("large", b"y" * MB)
            for _ in range(300):
                client.rpush("list", b"z" * MB)
        urls = [f"redis://127.0.0.1:{server.port}" for server in (one, two)]
        for via in ("psync", "scan"):
            said = run(
                "import", urls[0], "--db", tmp_path / f"{via}.db", "--via", via, most_mb=4000
            )
            assert "2 keys" in said
        assert "2 keys" in run("export", "--db", tmp_path / "scan.db", urls[1], most_mb=2500)
        assert "no differences" in run("compare", *urls, most_mb=4000)
        assert "no differences" in run("compare", tmp_path / "psync.db", urls[1], most_mb=4000)
