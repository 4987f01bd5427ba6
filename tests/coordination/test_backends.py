"""One protocol over every client: ours, redis-py's and valkey-py's, clusters and sentinels."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
import redis.asyncio.sentinel
import valkey.asyncio
import valkey.asyncio.cluster

import holdfast
from holdfast.client.errors import ClientError, ServerError
from holdfast.coordination.backend import Backend
from holdfast.coordination.backend_foreign import ForeignBackend
from holdfast.coordination.backend_of import backend_of
from holdfast.coordination.lua_scripts import LuaScript
from tests.client.fakes import until
from tests.harness import RedisServer
from tests.harness.cluster import Nodes, start_cluster

KINDS = [
    "holdfast",
    "holdfast-cluster",
    "memory",
    "redis",
    "redis-decoding",
    "redis-resp2",
    "redis-cluster",
    "valkey",
    "valkey-cluster",
]
ECHO = LuaScript(
    "echo",
    "-- KEYS[1] key\n-- ARGV[1+] rest\n-- Returns all.\nreturn {KEYS[1], #ARGV, ARGV[1] or false}",
)
Scenario = Callable[[Backend], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield start_cluster(stack, tmp_path_factory.mktemp("cluster"))


@asynccontextmanager
async def opened(kind: str, port: int, **options: Any) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:
        client: Any
        if kind == "memory":
            client = await stack.enter_async_context(holdfast.connect("memory://"))
        elif kind.startswith("holdfast"):
            scheme = "redis+cluster" if "cluster" in kind else "redis"
            url = f"{scheme}://127.0.0.1:{port}"
            client = await stack.enter_async_context(holdfast.connect(url))
        else:
            kinds: dict[str, Callable[..., Any]] = {
                "redis": redis.asyncio.Redis,
                "redis-cluster": redis.asyncio.RedisCluster,
                "redis-decoding": lambda **kw: redis.asyncio.Redis(decode_responses=True, **kw),
                "redis-resp2": lambda **kw: redis.asyncio.Redis(protocol=2, **kw),
                "valkey": valkey.asyncio.Valkey,
                "valkey-cluster": valkey.asyncio.cluster.ValkeyCluster,
            }
            client = kinds[kind](host="127.0.0.1", port=port, **options)
            stack.push_async_callback(client.aclose)
        yield client


@pytest.fixture(params=KINDS)
def play(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """Runs a scenario with the commands of a client of each kind, on empty servers."""
    kind: str = request.param
    servers: list[RedisServer] = []
    if "cluster" in kind:
        servers = request.getfixturevalue("nodes").servers
    elif kind != "memory":
        servers = [request.getfixturevalue("oracle")]
    for server in servers:
        with server.client() as raw:
            assert raw.command("FLUSHALL") == b"+OK\r\n"
            assert raw.command("SCRIPT", "FLUSH") == b"+OK\r\n"

    def run(scenario: Scenario) -> None:
        async def main() -> None:
            async with opened(kind, servers[0].port if servers else 0) as client:
                await scenario(backend_of(client))

        asyncio.run(main())

    return run


Play = Callable[[Scenario], None]


def test_scripts_run_by_digest_also_where_the_server_lacks_them(play: Play) -> None:
    async def scenario(commands: Backend) -> None:
        for key in ("a", "b", "c", "d"):  # on all nodes of a cluster
            for _ in range(2):
                reply = await commands.run(ECHO, {"key": key}, {"rest": [b"x", 2]})
                assert reply == [key.encode(), 2, b"x"]
        assert await commands.run(ECHO, {"key": "a"}, {"rest": []}) == [b"a", 0, None]
        with pytest.raises(TypeError, match="keys missing"):
            await commands.run(ECHO, {}, {"rest": []})
        failing = LuaScript("failing", "-- Returns never.\nreturn redis.error_reply('ODD one')")
        with pytest.raises(ServerError, match="ODD one"):
            await commands.run(failing, {}, {})

    play(scenario)


def test_scripts_are_prepared_for_calls_that_differ_in_one_argument(play: Play) -> None:
    async def scenario(commands: Backend) -> None:
        all_of = LuaScript(
            "all",
            "-- KEYS[1] key\n-- ARGV[1+] rest\n-- Returns all.\nreturn {KEYS[1], unpack(ARGV)}",
        )
        for before, after in (((0.5,), ("z", 7)), ((), ())):
            run = commands.prepare(all_of, (1, "a", *before), after)
            for each in ("x", "", "é" * 100, "line\r\n$1"):
                args = (*before, each, *after)
                assert await run(each) == [b"a", *(str(arg).encode() for arg in args)]
        failing = LuaScript(
            "odd", "-- ARGV[1] id\n-- Returns no.\nreturn {err = 'ODD ' .. ARGV[1]}"
        )
        with pytest.raises(ServerError, match="ODD one"):
            await commands.prepare(failing, (0,), ())("one")

    play(scenario)


def test_plain_commands_time_and_names(play: Play) -> None:
    async def scenario(commands: Backend) -> None:
        for n in range(20):
            await commands.call("SET", f"key:{n}", n)
        assert await commands.call("GET", "key:7") == b"7"
        assert await commands.call("GET", "nothing") is None
        with pytest.raises(ServerError):
            await commands.call("LPUSH", "key:1", "x")
        assert {key async for key in commands.scan("key:*")} == {b"key:%d" % n for n in range(20)}
        before_s = await commands.time_s("a")
        assert 1.7e9 < before_s <= await commands.time_s("a")

    play(scenario)


def test_a_pop_waits_and_gives_up(play: Play) -> None:
    async def scenario(commands: Backend) -> None:
        assert await commands.pop("q", timeout_s=0) is None
        assert await commands.pop("q", timeout_s=0.01) is None
        waiting = asyncio.create_task(commands.pop("{q}1", "{q}2", timeout_s=None))
        await asyncio.sleep(0)
        await commands.call("RPUSH", "{q}2", "x")
        assert await waiting == (b"{q}2", b"x")

    play(scenario)


@pytest.mark.parametrize("is_heeded", [False, True])
def test_a_cancelled_pop_loses_nothing(play: Play, is_heeded: bool) -> None:
    async def scenario(commands: Backend) -> None:
        got: list[bytes] = []
        heed = got.append if is_heeded else None
        for n in range(20):
            waiting = asyncio.create_task(commands.pop("q", timeout_s=None, heed=heed))
            for _ in range(n % 5):
                await asyncio.sleep(0)
            pushing = asyncio.create_task(commands.call("RPUSH", "q", n))
            for _ in range(n % 3):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await pushing
            if not waiting.cancelled() and (popped := waiting.result()) and not is_heeded:
                got.append(popped[1])
        if isinstance(commands, ForeignBackend):
            await until(lambda: not commands._background)
        while popped := await commands.pop("q", timeout_s=0.01):
            got.append(popped[1])
        assert sorted(map(int, got)) == list(range(20))
        assert await commands.call("PING") in (b"PONG", True)  # redis-py's callback

    play(scenario)


def test_a_popped_element_is_handled_before_the_caller_resumes(play: Play) -> None:
    async def scenario(commands: Backend) -> None:
        heard: list[object] = []

        async def pop() -> None:
            heard.append(await commands.pop("q", timeout_s=5, heed=heard.append))

        waiting = asyncio.create_task(pop())
        await commands.call("RPUSH", "q", "x")
        await waiting
        assert heard == [b"x", (b"q", b"x")]
        assert await commands.pop("q", timeout_s=0.01, heed=heard.append) is None
        assert len(heard) == 2

    play(scenario)


def test_a_server_that_is_gone_is_a_client_error(tmp_path: Path) -> None:
    async def scenario() -> None:
        with RedisServer(tmp_path) as server:
            async with AsyncExitStack() as stack:
                clients = {
                    kind: await stack.enter_async_context(opened(kind, server.port, retry=None))
                    for kind in ("redis", "valkey")
                }
                for client in clients.values():
                    await backend_of(client).call("SET", "a", 1)
                server.kill()
                for client in clients.values():
                    with pytest.raises(ClientError) as raised:
                        await backend_of(client).call("SET", "a", 1)
                    assert raised.value.may_have_executed

    asyncio.run(scenario())


def test_a_pop_stays_below_the_socket_timeout_of_its_client(oracle: RedisServer) -> None:
    async def scenario() -> None:
        async with redis.asyncio.Redis(port=oracle.port, socket_timeout=0.2) as client:
            commands = backend_of(client)
            assert isinstance(commands, ForeignBackend)
            assert commands._slice_s == 0.1
            assert await commands.pop("nothing here", timeout_s=0.3) is None

    asyncio.run(scenario())


def test_an_object_that_is_no_known_client_is_refused() -> None:
    sentinel: Any = redis.asyncio.sentinel.Sentinel([("127.0.0.1", 1)])  # type: ignore[no-untyped-call]
    with pytest.raises(TypeError, match=r"take the one in redis\.asyncio"):
        backend_of(redis.Redis())
    with pytest.raises(TypeError, match="master_for"):
        backend_of(sentinel)
    with pytest.raises(TypeError, match="no client"):
        backend_of(object())
    assert isinstance(backend_of(sentinel.master_for("main")), ForeignBackend)


def test_no_library_is_imported_unasked() -> None:
    code = (
        "import sys, holdfast.coordination.backend_of; print({'redis', 'valkey'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
