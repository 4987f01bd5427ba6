"""`holdfast check` and `holdfast backup` on a file that a server writes to at that moment."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness import HoldfastServer

Start = Callable[..., HoldfastServer]


def holdfast(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "holdfast", *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=50)


@contextmanager
def being_written_to(server: HoldfastServer) -> Iterator[list[int]]:
    """A client pushes 0, 1, 2, … to a list, and moves every third element to another. Yields the
    last acknowledged number."""
    client = server.client()
    acknowledged = [-1]
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.is_set():
            client.command("RPUSH", "numbers", number)
            client.command("SET", f"k{number % 1000}", b"x" * 200)
            if number % 3 == 0:
                client.command("LMOVE", "numbers", "others", "LEFT", "RIGHT")
            acknowledged[0] = number
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield acknowledged
    finally:
        done.set()
        writer.join()


def test_check_and_backup_while_it_is_written_to(start_server: Start, tmp_path: Path) -> None:
    server = start_server("--appendfsync", "everysec")
    copies = [tmp_path / f"copy{number}.db" for number in range(3)]
    least: list[int] = []
    with being_written_to(server) as acknowledged:
        for copy in copies:
            result = holdfast("check", server.db)
            assert (result.returncode, result.stderr) == (0, ""), result
            least.append(acknowledged[0])
            result = holdfast("backup", server.db, str(copy))
            assert (result.returncode, result.stderr) == (0, ""), result
    assert least[-1] > 0
    for copy, at_least in zip(copies, least, strict=True):
        result = holdfast("check", str(copy))
        assert result.returncode == 0, result.stdout
        client = start_server(db=copy).client()
        lengths = [int(client.command("LLEN", name)[1:]) for name in ("numbers", "others")]
        count = sum(lengths)
        assert count > at_least, "everything acknowledged before the copy began is in it"
        # One moment: nothing is missing, nothing is there twice.
        client.send(b"LRANGE numbers 0 -1\r\nLRANGE others 0 -1\r\n")
        words = b"".join(client.read_replies(2)).split(b"\r\n")
        numbers = sorted(int(word) for word in words if word.isdigit())
        assert numbers == list(range(count))


def test_backup_does_not_overwrite(start_server: Start, tmp_path: Path) -> None:
    server = start_server()
    (tmp_path / "there.db").write_text("precious")
    result = holdfast("backup", server.db, str(tmp_path / "there.db"))
    assert result.returncode == 1
    assert "exists; a backup does not overwrite anything" in result.stderr
    assert (tmp_path / "there.db").read_text() == "precious"
