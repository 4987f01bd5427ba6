"""A script is all or nothing: an error, a kill or a limit undoes all its writes."""

from collections.abc import Callable

import pytest

from tests.harness import HoldfastServer, RawClient

FAILURES = {
    "an error": "error('boom')",
    "an error of a command": "redis.call('nope')",
    "no memory": "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e6) .. i end",
    "a stack overflow": "local function f() return 1 + f() end f()",
}

WRITES = """
    redis.call('set', 'new', '1')
    redis.call('set', 'old', 'changed')
    redis.call('del', 'gone')
    redis.call('rpush', 'list', 'c')
    redis.call('lpop', 'list')
    redis.call('expire', 'old', 100)
    redis.call('rename', 'moved', 'elsewhere')
    redis.call('select', 1)
    redis.call('set', 'other', '1')
    redis.call('flushdb')
"""


@pytest.fixture
def limited(start_server: Callable[..., HoldfastServer]) -> HoldfastServer:
    return start_server("--lua-max-memory", "64mb")


def state(client: RawClient) -> list[bytes]:
    commands: list[tuple[object, ...]] = [
        ("MGET", "new", "old", "gone", "moved", "elsewhere"),
        ("LRANGE", "list", 0, -1),
        ("TTL", "old"),
        ("DBSIZE",),
    ]
    return [client.command(*command) for command in commands]  # type: ignore[arg-type]


def load(client: RawClient, name: str, body: str, *options: str) -> None:
    """A library with one function, both of this name."""
    code = f"#!lua name={name}\nredis.register_function('{name}', function(keys, args) {body} end)"
    reply = client.command("FUNCTION", "LOAD", *options, code)
    assert reply == b"$%d\r\n%s\r\n" % (len(name), name.encode())


def fill(client: RawClient) -> None:
    client.command("MSET", "old", "1", "gone", "2", "moved", "3")
    client.command("RPUSH", "list", "a", "b")


@pytest.mark.parametrize("as_function", [False, True], ids=["EVAL", "FCALL"])
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_script_that_fails_has_written_nothing(
    limited: HoldfastServer, failure: str, as_function: bool
) -> None:
    with RawClient.connect(limited.port) as client, RawClient.connect(limited.port) as watcher:
        fill(client)
        before = state(client)
        watcher.command("WATCH", "old", "list")
        if as_function:
            load(client, "failing", WRITES + failure)
            assert client.command("FCALL", "failing", 0)[:1] == b"-"
        else:
            assert client.command("EVAL", WRITES + failure, 0)[:1] == b"-"
        assert state(client) == before
        watcher.command("MULTI")
        assert watcher.command("EXEC") == b"*0\r\n", "nothing that was watched has changed"
        limited.kill()
        limited.start()
    with RawClient.connect(limited.port) as client:
        assert state(client) == before, "nor is any of it in the file"


def test_writes_before_an_error_that_is_caught_stay(client: RawClient) -> None:
    script = "redis.call('set', 'a', 1) local ok = pcall(redis.call, 'nope') return tostring(ok)"
    assert client.command("EVAL", script, 0) == b"$5\r\nfalse\r\n"
    assert client.command("GET", "a") == b"$1\r\n1\r\n"


def test_an_error_that_is_returned_is_an_answer_and_no_failure(client: RawClient) -> None:
    script = "redis.call('set', 'a', 1) return redis.error_reply('NO thing')"
    assert client.command("EVAL", script, 0) == b"-NO thing\r\n"
    assert client.command("GET", "a") == b"$1\r\n1\r\n"


def test_writes_that_were_undone_wake_no_client_and_send_no_event(server: HoldfastServer) -> None:
    with (
        RawClient.connect(server.port) as client,
        RawClient.connect(server.port) as waiter,
        RawClient.connect(server.port) as listener,
    ):
        client.command("FLUSHALL")
        client.command("CONFIG", "SET", "notify-keyspace-events", "KEA")
        waiter.send_command("BLPOP", "q", 0)
        listener.command("PSUBSCRIBE", "*")
        push = "redis.call('rpush', 'q', ARGV[1]) redis.call('publish', 'news', ARGV[1]) "
        client.command("EVAL", push + "error('x')", 0, "taken-back")
        client.command("CONFIG", "SET", "notify-keyspace-events", "")
        client.command("EVAL", push, 0, "real")
        assert waiter.read_reply() == b"*2\r\n$1\r\nq\r\n$4\r\nreal\r\n"
        message = listener.read_reply()
        assert b"news" in message
        assert b"real" in message


def test_pushes_of_a_script_wake_waiters_in_order_after_it(server: HoldfastServer) -> None:
    with (
        RawClient.connect(server.port) as client,
        RawClient.connect(server.port) as first,
        RawClient.connect(server.port) as second,
    ):
        client.command("FLUSHALL")
        first.send_command("BLPOP", "q", 0)
        while b"blocked_clients:1" not in client.command("INFO", "clients"):
            pass
        second.send_command("BLPOP", "q", 0)
        while b"blocked_clients:2" not in client.command("INFO", "clients"):
            pass
        script = "redis.call('rpush', 'q', 'a', 'b', 'c') return redis.call('llen', 'q')"
        assert client.command("EVAL", script, 0) == b":3\r\n", "nobody took any meanwhile"
        assert first.read_reply() == b"*2\r\n$1\r\nq\r\n$1\r\na\r\n"
        assert second.read_reply() == b"*2\r\n$1\r\nq\r\n$1\r\nb\r\n"


def test_loaded_scripts_survive_a_kill(start_server: Callable[..., HoldfastServer]) -> None:
    server = start_server()
    with RawClient.connect(server.port) as client:
        client.command("SCRIPT", "LOAD", "return 'kept'")
        sha = client.command("SCRIPT", "LOAD", "return ARGV[1]").split(b"\r\n")[1]
    server.kill()
    server.start()
    with RawClient.connect(server.port) as client:
        assert client.command("EVALSHA", sha, 0, "x") == b"$1\r\nx\r\n"
        client.command("SAVE")
    server.kill()
    server.start()
    with RawClient.connect(server.port) as client:
        assert client.command("EVALSHA", sha, 0, "x") == b"$1\r\nx\r\n", "also from the tables"
        client.command("SCRIPT", "FLUSH")
    server.kill()
    server.start()
    with RawClient.connect(server.port) as client:
        assert client.command("EVALSHA", sha, 0, "x")[:9] == b"-NOSCRIPT"


def test_libraries_survive_a_kill(start_server: Callable[..., HoldfastServer]) -> None:
    server = start_server()

    def again() -> RawClient:
        server.kill()
        server.start()
        return server.client()

    client = server.client()
    load(client, "kept", "return args")
    load(client, "changed", "return 'old'")
    load(client, "deleted", "return 1")
    client = again()
    assert client.command("FCALL", "kept", 0, "x") == b"*1\r\n$1\r\nx\r\n"
    load(client, "changed", "return 'new'", "REPLACE")
    client.command("FUNCTION", "DELETE", "deleted")
    client.command("SAVE")
    client = again()
    assert client.command("FCALL", "KEPT", 0, "x") == b"*1\r\n$1\r\nx\r\n", "from the tables"
    assert client.command("FCALL", "changed", 0) == b"$3\r\nnew\r\n"
    assert client.command("FCALL", "deleted", 0) == b"-ERR Function not found\r\n"
    payload = client.command("FUNCTION", "DUMP").partition(b"\r\n")[2][:-2]
    client.command("FUNCTION", "FLUSH")
    client = again()
    assert client.command("FUNCTION", "LIST") == b"*0\r\n"
    assert client.command("FUNCTION", "RESTORE", payload) == b"+OK\r\n"
    client = again()
    assert client.command("FCALL", "changed", 0) == b"$3\r\nnew\r\n"
    client.command("DEBUG", "RELOAD")
    assert client.command("FCALL", "changed", 0) == b"$3\r\nnew\r\n"


def test_writes_of_a_function_wake_waiters_when_it_has_succeeded(
    server: HoldfastServer, client: RawClient
) -> None:
    with RawClient.connect(server.port) as waiter:
        push = "redis.call('rpush', 'q', args[1]) redis.call('publish', 'c', args[1]) "
        load(
            client, "push", push + "if args[2] then error('no') end return redis.call('llen', 'q')"
        )
        waiter.send_command("BLPOP", "q", 0)
        assert client.command("FCALL", "push", 0, "lost", "fail")[:1] == b"-"
        assert client.command("FCALL", "push", 0, "first") == b":1\r\n"
        assert waiter.read_reply() == b"*2\r\n$1\r\nq\r\n$5\r\nfirst\r\n"
        assert client.command("LLEN", "q") == b":0\r\n"
