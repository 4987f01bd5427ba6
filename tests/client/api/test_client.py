"""The client as users see it, on every kind of server."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.errors import (
    ClientError,
    ClosedError,
    ConnectError,
    ConversionError,
    NotConnectedError,
    RequestTimeoutError,
    ServerError,
    TransactionAbortedError,
)
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.request import Request
from holdfast.client.topology.single import Single
from holdfast.client.transport.hooks import Hooks, RequestFinish, RequestStart
from tests.client.fakes import until

Play = Callable[..., None]


def single(client: Client) -> Single:
    assert isinstance(client._caller, Single)
    return client._caller


def test_single_commands_are_converted(play: Play) -> None:
    async def scenario(client: Client) -> None:
        assert await client.exec("SET", "k", "5") == b"OK"
        assert await client.exec("GET", "k") == b"5"
        assert await client.exec("get", "k", into=int) == 5
        assert await client.exec("GET", "missing", into=str | None) is None
        await client.exec("SET", "k", "v", into=None)
        with pytest.raises(ConversionError, match=r"^\$: expected int"):
            await client.exec("GET", "k", into=int)
        with pytest.raises(ServerError, match="WRONGTYPE"):
            await client.exec("LPUSH", "k", 1)

    play(scenario)


def test_typed_methods(play: Play) -> None:
    async def scenario(client: Client) -> None:
        assert await client.set("k", "é")
        assert await client.get("k") == "é"
        assert await client.binary.get("k") == "é".encode()
        assert not await client.set("k", "w", nx=True)
        assert await client.set("k", 1, px_ms=100_000)
        assert 0 < await client.pttl("k") <= 100_000
        assert await client.incrby("k", 2) == 3
        assert await client.get("none") is None
        assert await client.rpush("l", "a", "b", "c") == 3
        assert await client.lrange("l", 0, -1) == ["a", "b", "c"]
        assert await client.lpop_many("l", 2) == ["a", "b"]
        assert await client.exists("k", "l", "none") == 2
        assert await client.type("l") == "list"
        assert await client.delete("k", "l") == 2

    play(scenario)


def test_typed_methods_of_the_other_types(play: Play) -> None:
    async def scenario(client: Client) -> None:
        assert await client.hset("h", {"a": 1, "b": "x"}) == 2
        assert await client.hgetall("h") == {"a": "1", "b": "x"}
        assert await client.sadd("s", "a", "b") == 2
        assert await client.smembers("s") == {"a", "b"}
        assert await client.zadd("z", {"a": 1.5, "b": 2}) == 2
        assert await client.zrange_withscores("z", 0, -1) == [("a", 1.5), ("b", 2.0)]
        assert await client.zscore("z", "a") == 1.5
        assert await client.zpopmin("z") == [("a", 1.5)]
        assert await client.zincrby("z", 1, "b") == 3.0

    play(scenario, "hset", "sadd", "zadd")


def test_every_slot_of_a_request_is_a_value_or_an_error(play: Play) -> None:
    async def scenario(client: Client) -> None:
        request = Request().add("SET", "k", "v").add("GET", "k").add("LPUSH", "k", 1)
        _, value, error = await client.exec(request, into=(None, str, int))
        assert value == "v"
        assert isinstance(error, ServerError)
        count = Request(("INCR", "n") for _ in range(100))
        assert await client.exec_dynamic(count, into=int) == list(range(1, 101))
        mixed = Request().add("GET", "k").add("GET", "n")
        first, second = await client.exec_dynamic(mixed, into=int)
        assert isinstance(first, ConversionError)
        assert second == 100
        with pytest.raises(ValueError, match="tuple of 2"):
            await client.exec(mixed, into=(int,))
        assert await client.exec_dynamic(Request(), into=int) == []

    play(scenario)


def test_many_tasks_get_their_own_replies(play: Play) -> None:
    async def scenario(client: Client) -> None:
        async def caller(n: int) -> None:
            for m in range(20):
                assert await client.exec("ECHO", f"{n}:{m}", into=str) == f"{n}:{m}"

        await asyncio.gather(*(caller(n) for n in range(50)))

    play(scenario)


def test_blocking_commands_do_not_block_others(play: Play) -> None:
    async def scenario(client: Client) -> None:
        waiting = asyncio.create_task(client.blpop("q", timeout_s=0))
        await client.set("k", "v")
        assert await client.get("k") == "v"
        await client.rpush("q", "x")
        assert await waiting == ("q", "x")
        assert await client.blpop("q", timeout_s=0.01) is None

    play(scenario)


def test_a_deadline_of_40_ms_ends_a_blpop_and_nothing_else(play: Play) -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(RequestTimeoutError) as caught:
            await client.exec("BLPOP", "q", 0, timeout_s=0.04)
        assert not caught.value.may_have_executed
        assert client.state is State.OPEN
        await client.rpush("q", "x")
        assert await client.blpop("q", timeout_s=1) == ("q", "x")

    play(scenario)


def test_close_fails_blocking_calls_that_wait(play: Play) -> None:
    async def scenario(client: Client) -> None:
        waiting = [asyncio.create_task(client.blpop("q", timeout_s=0)) for _ in range(3)]
        await client.ping()
        await until(lambda: sum(c.is_connected for c in single(client)._leased) == 3)
        await client.close()
        await client.close()
        for error in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(error, ClosedError)
        with pytest.raises(ClosedError):
            await client.ping()

    play(scenario)


def test_transactions(play: Play) -> None:
    async def scenario(client: Client) -> None:
        transaction = client.transaction().add("SET", "a", 1).add("INCR", "a").add("LPUSH", "a", 1)
        ok, two, error = await transaction.commit((bool, int, int))
        assert (ok, two) == (True, 2)
        assert isinstance(error, ServerError)
        async with client.transaction("a") as tx:
            value = await tx.exec("GET", "a", into=int)
            assert await tx.add("SET", "a", value * 10).commit() == [b"OK"]
        assert await client.get("a") == "20"
        async with client.transaction("a") as tx:
            await client.set("a", "changed")
            with pytest.raises(TransactionAbortedError) as caught:
                await tx.add("SET", "a", "lost").commit()
            assert caught.value.is_retryable
        assert await client.get("a") == "changed"
        with pytest.raises(ServerError, match="EXECABORT"):
            await client.transaction().add("NOSUCH").commit()

    play(scenario)


def test_a_slot_of_a_transaction_is_a_value_or_an_error(play: Play) -> None:
    async def scenario(client: Client) -> None:
        transaction = client.transaction().add("SET", "a", "x").add("GET", "a").add("GET", "a")
        _, error, value = await transaction.commit((None, int, str))
        assert isinstance(error, ConversionError)
        assert value == "x"
        with pytest.raises(ValueError, match="names 1 types for 2 commands"):
            await client.transaction().add("PING").add("PING").commit((str,))

    play(scenario)


def test_a_refused_multi_is_told_with_its_meaning_for_the_commands(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as admin:
            rules = ("on", ">pw", "~*", "+@all", "-multi")
            await admin.exec("ACL", "SETUSER", "modest", *rules)
            try:
                async with holdfast.connect(redis_url.replace("://", "://modest:pw@")) as client:
                    with pytest.raises(ClientError, match="refused MULTI, so each command") as ran:
                        await client.transaction().add("INCR", "n").add("INCR", "n").commit()
                    assert ran.value.may_have_executed
                    assert not ran.value.is_retryable
                    assert await client.get("n") == "2"
                    await admin.exec("ACL", "SETUSER", "modest", "-incr")
                    with pytest.raises(ServerError, match="'multi'"):
                        await client.transaction().add("INCR", "n").commit()
            finally:
                await admin.exec("ACL", "DELUSER", "modest")

    asyncio.run(scenario())


def test_a_watched_transaction_has_a_timeout_and_leaves_no_watch_behind(play: Play) -> None:
    async def scenario(client: Client) -> None:
        async with client.transaction("a"):
            pass
        assert len(single(client)._idle) == 1
        await client.set("a", "changed")
        async with client.transaction("b") as tx:  # over the same connection
            assert len(single(client)._leased) == 1
            assert not single(client)._idle
            await client.set("a", "changed again")
            assert await tx.add("SET", "b", 1).commit() == [b"OK"]
        with pytest.raises(ServerError):
            async with client.transaction("a", ""):
                await client.exec("NOSUCH")
        assert not single(client)._leased

    play(scenario)


def test_a_lent_connection_that_is_lost_does_not_close_the_client(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client:
            async with client.transaction("a") as tx:
                number = await tx.exec("CLIENT", "ID", into=int)
                await client.exec("CLIENT", "KILL", "ID", number)
                (lent,) = single(client)._leased
                await until(lambda: not lent.is_connected)
                for call in (tx.exec("GET", "a"), tx.add("GET", "a").commit()):
                    with pytest.raises(
                        NotConnectedError, match="the connection was lost"
                    ) as caught:
                        await call
                    assert not isinstance(caught.value, ClosedError)
                    assert caught.value.is_retryable
            assert await client.ping() == "PONG"
            assert not single(client)._leased

    asyncio.run(scenario())


def test_blocking_reads_of_streams_do_not_block_others(play: Play) -> None:
    async def scenario(client: Client) -> None:
        read = client.exec("XREAD", "BLOCK", 0, "STREAMS", "x", "$")
        waiting = asyncio.create_task(read)
        await until(lambda: any(c.pending[0] for c in single(client)._leased))
        while not waiting.done():  # until the server has read the request
            await client.xadd("x", {"f": "v"})
        assert await waiting is not None
        not_blocking = await client.exec("XREAD", "COUNT", 1, "STREAMS", "x", "0")
        assert not_blocking is not None
        assert not single(client)._leased

    play(scenario)


def test_as_many_callers_may_block_as_want_to(play: Play) -> None:
    """There is no pool that could be exhausted."""

    async def scenario(client: Client) -> None:
        waiting = [asyncio.create_task(client.blpop(f"q{n}", timeout_s=0)) for n in range(100)]
        await client.ping()
        for n in range(100):
            await client.rpush(f"q{n}", n)
        assert await asyncio.gather(*waiting) == [(f"q{n}", str(n)) for n in range(100)]

    play(scenario)


def test_a_command_runs_once_however_long_the_server_stalls(redis_url: str) -> None:
    async def scenario() -> None:
        async with (
            holdfast.connect(redis_url) as client,
            holdfast.connect(redis_url) as other,
        ):
            await other.exec("CLIENT", "PAUSE", 60_000, "WRITE")
            try:
                calls = [client.within(0.01).incr("n") for _ in range(5)]
                for error in await asyncio.gather(*calls, return_exceptions=True):
                    assert isinstance(error, RequestTimeoutError)
                    assert error.may_have_executed
                assert client.is_connected
            finally:
                await other.exec("CLIENT", "UNPAUSE")
            assert await client.incr("n") == 6

    asyncio.run(scenario())


def test_scan_iter_finds_all_keys(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await client.mset({f"key:{n}": n for n in range(200)})
        await client.set("other", 1)
        found = {key async for key in client.scan_iter("key:*", count=20)}
        assert found == {f"key:{n}" for n in range(200)}

    play(scenario, "scan", "mset")


def test_scripts_are_sent_once(play: Play) -> None:
    async def scenario(client: Client) -> None:
        script = client.script("return {KEYS[1], ARGV[1]} -- " + str(id(client)))
        for _ in range(2):
            assert (await script(["k"], [7], into=list[str]))[:2] == ["k", "7"]

    play(scenario, "evalsha")


def test_pubsub_is_an_async_iterator(play: Play) -> None:
    async def scenario(client: Client) -> None:
        async with client.pubsub() as pubsub:
            await pubsub.subscribe("a", "b")
            await pubsub.psubscribe("p*")
            await client.publish("a", "1")
            await client.publish("pat", b"\xff")
            first, second = await anext(pubsub), await anext(pubsub)
            assert (first.channel, first.text, first.pattern) == ("a", "1", None)
            assert (second.channel, second.data, second.pattern) == ("pat", b"\xff", "p*")
            await pubsub.unsubscribe("a")
            await client.publish("a", "2")
            await client.publish("b", "3")
            assert (await anext(pubsub)).text == "3"
            reader = asyncio.create_task(anext(pubsub, None))
            await asyncio.sleep(0)
            await pubsub.close()
            assert await reader is None

    play(scenario, "subscribe")


@pytest.mark.parametrize(
    "command",
    [
        *("SUBSCRIBE x", "MULTI", "watch x", "SELECT 1", "MONITOR", "QUIT"),
        *("replconf ack 1", "script debug yes", "CLIENT REPLY OFF"),
    ],
)
def test_commands_that_would_disturb_other_callers_are_refused(play: Play, command: str) -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(ValueError, match="shared connection"):
            await client.exec(*command.split())
        with pytest.raises(ValueError, match="send it alone"):
            await client.exec(Request().add("BLPOP", "q", 0), into=(None,))
        assert await client.ping() == "PONG"

    play(scenario)


def test_a_timeout_of_a_call_leaves_the_others(play: Play) -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(RequestTimeoutError):
            await client.within(0).ping()
        assert await client.within(5).ping() == "PONG"

    play(scenario)


def test_hooks_see_requests(play: Play) -> None:
    class Recorder(Hooks):
        def __init__(self) -> None:
            self.started: list[RequestStart] = []
            self.finished: list[RequestFinish] = []

        def request_start(self, event: RequestStart) -> None:
            self.started.append(event)

        def request_finish(self, event: RequestFinish) -> None:
            self.finished.append(event)
            raise RuntimeError("a bad hook")

    recorder = Recorder()

    async def scenario(client: Client) -> None:
        await client.set("k", "v")
        await client.exec(Request().add("GET", "k").add("INCR", "k"), into=(str, int))
        with pytest.raises(ServerError):
            await client.incr("k")

    play(scenario, hooks=[recorder])
    one, two, three = recorder.finished
    assert [event.start for event in recorder.finished] == recorder.started
    assert (one.start.kind, one.ok, one.errors, one.first_error) == ("single", 1, 0, None)
    assert one.start.bytes == len(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
    assert (two.start.kind, len(two.start.commands), two.ok, two.errors) == ("fixed", 2, 1, 1)
    assert isinstance(two.first_error, ServerError)
    assert three.errors == 1
    assert len({event.start.id for event in recorder.finished}) == 3
    assert all(event.duration_s >= 0 for event in recorder.finished)


def test_hooks_also_see_refused_commands() -> None:
    class Recorder(Hooks):
        def __init__(self) -> None:
            self.errors: list[BaseException | None] = []

        def request_finish(self, event: RequestFinish) -> None:
            self.errors.append(event.first_error)

    recorder = Recorder()

    async def scenario() -> None:
        options: dict[str, Any] = {"hooks": [recorder], "max_requests": 2}
        async with holdfast.connect("memory://", **options) as client:
            pings = [client.exec(Request().add("PING"), into=(str,)) for _ in range(3)]
            await asyncio.gather(*pings, return_exceptions=True)

    asyncio.run(scenario())
    assert sorted(type(error).__name__ for error in recorder.errors) == [
        "NoneType",
        "NoneType",
        "QueueFullError",
    ]


def test_a_killed_connection_comes_back_as_another(play: Play) -> None:
    async def scenario(client: Client) -> None:
        before = await client.exec("CLIENT", "ID", into=int)
        error = await asyncio.gather(
            client.exec("CLIENT", "KILL", "ID", before, "SKIPME", "no"), return_exceptions=True
        )
        await until(lambda: client.is_connected and single(client).connection.generation == 2)
        assert await client.exec("CLIENT", "ID", into=int) != before
        assert isinstance(error[0], ClientError | int)

    play(scenario, "client|kill")


def test_the_server_is_told_the_name_and_version_of_the_client(play: Play) -> None:
    async def scenario(client: Client) -> None:
        info = await client.exec("CLIENT", "INFO", into=str)
        assert " name=tester " in info
        if "lib-name=" in info:  # from 7.2 on
            assert f" lib-name=holdfast lib-ver={holdfast.__version__}" in info

    play(scenario, client_name="tester")


def test_before_connect_and_after_close(redis_url: str) -> None:
    async def scenario() -> None:
        client = holdfast.connect(redis_url)
        assert client.state is State.INIT
        assert not client.is_connected
        with pytest.raises(NotConnectedError):
            await client.exec("PING")
        async with client:
            assert await client.ping() == "PONG"
            assert client.last_error is None
        with pytest.raises(ClosedError):
            await client.ping()

    asyncio.run(scenario())


def test_no_server_listens() -> None:
    async def scenario() -> None:
        client = holdfast.connect("redis://127.0.0.1:1")
        with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
            await client.connect()
        assert client.last_error is not None
        await client.close()

    asyncio.run(scenario())


def test_a_name_that_cannot_be_resolved() -> None:
    async def scenario() -> None:
        with pytest.raises(ConnectError, match=r"no-such-host\.invalid"):
            await holdfast.connect("redis://no-such-host.invalid").connect()

    asyncio.run(scenario())


def test_a_file_in_this_process(tmp_path: Any) -> None:
    async def scenario() -> None:
        url = f"holdfast://{tmp_path}/app.db"
        async with holdfast.connect(url) as client:
            await client.set("k", "v")
        async with holdfast.connect(url) as client:
            assert await client.get("k") == "v"

    asyncio.run(scenario())
