"""A server was killed, and then its files are damaged: the next one says so and does not start."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, wait_until

ELEMENTS = 387
StartServer = Callable[..., HoldfastServer]


def flip_a_bit(database: Path) -> None:
    """Flip a bit in the middle of the last write."""
    wal = bytearray(_wal(database).read_bytes())
    wal[wal.rindex(b"element-200")] ^= 1
    _wal(database).write_bytes(wal)


def remove_the_wal(database: Path) -> None:
    _wal(database).unlink()


def cut_the_wal(database: Path) -> None:
    os.truncate(_wal(database), _wal(database).stat().st_size // 2)


def empty_the_file(database: Path) -> None:
    os.truncate(database, 0)


DAMAGES = [flip_a_bit, remove_the_wal, cut_the_wal, empty_the_file]


def _wal(database: Path) -> Path:
    return database.with_name(f"{database.name}-wal")


def killed(start_server: StartServer, appendfsync: str) -> HoldfastServer:
    server = start_server("--appendfsync", appendfsync)
    with server.client() as client:
        for number in range(ELEMENTS):
            assert client.command("RPUSH", "q", f"element-{number}") == b":%d\r\n" % (number + 1)
    server.kill()
    return server


def holdfast(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *argv],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("appendfsync", ["always", "everysec", "no"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_loss_of_acknowledged_writes_stops_the_next_start(
    start_server: StartServer, damage: Callable[[Path], None], appendfsync: str
) -> None:
    server = killed(start_server, appendfsync)
    database = Path(server.db)
    damage(database)
    checked = holdfast("check", server.db)
    assert checked.returncode == 1
    refused = holdfast("serve", "--port", "0", "--db", server.db)
    assert refused.returncode == 1
    assert "--accept-data-loss" in checked.stdout
    assert "--accept-data-loss" in refused.stderr.splitlines()[-1]
    assert refused.stderr.count("holdfast: ") == 1
    server.args = (*server.args, "--accept-data-loss")
    server.start()
    with server.client() as client:
        assert client.command("LLEN", "q") < b":%d\r\n" % ELEMENTS
        assert client.command("RPUSH", "q", "more").startswith(b":")
    server.terminate()
    assert holdfast("check", server.db).returncode == 0


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_server_whose_file_is_cut_short_stops_and_says_why(
    start_server: StartServer, suffix: str
) -> None:
    server = start_server()
    server.restart()  # so that the file has its tables, and not only the WAL
    with server.client() as client:
        for number in range(50):
            assert client.command("RPUSH", "q", f"element-{number}").startswith(b":")
        cut = Path(f"{server.db}{suffix}")
        os.truncate(cut, 8192)
        wait_until(lambda: not server.running, "the server stops")
    assert server.process.returncode == 1
    assert f"{cut.name} was cut short while it was in use" in server.stderr
    assert "Traceback" not in server.stderr
