"""The database file is removed while it is served."""

from collections.abc import Callable

from tests.harness import HoldfastServer, wait_until


def test_a_server_whose_file_is_removed_stops_and_says_why(
    start_server: Callable[..., HoldfastServer],
) -> None:
    """SQLite would go on writing into a file that can never be opened again."""
    server = start_server()
    with server.client() as client:
        assert client.command("SET", "k", "v") == b"+OK\r\n"
        (database,) = server.folder.glob("*.db")
        database.unlink()
        wait_until(lambda: not server.running, "the server stops")
    assert server.process.returncode == 1
    assert f"{database.name} was removed or replaced while it was in use" in server.stderr
    assert "Traceback" not in server.stderr
