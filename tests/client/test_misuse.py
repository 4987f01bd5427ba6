"""Mistakes of users: a clear sentence each time, and nothing left running."""

import asyncio
import gc
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
import holdfast.sync
from holdfast.client.api.client import Client
from holdfast.client.errors import ClosedError, ConnectError, NotConnectedError
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.request import Request
from holdfast.client.transport.hooks import Hooks, RequestStart
from tests.client.fakes import Rig, turns

Play = Callable[..., None]


def drop(names: list[Any], match: str) -> None:
    """Drop the objects in the list, and expect a warning."""
    with pytest.warns(ResourceWarning, match=match):
        names.clear()
    gc.collect()


async def connected(url: str = "memory://", **options: Any) -> Client:
    client = holdfast.connect(url, **options)
    await client.connect()
    return client


# -- forgotten --------------------------------------------------------------------------------


def test_a_client_that_is_dropped_warns_and_hangs_up(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as other:
            clients = [await connected(redis_url, client_name="dropped")]
            assert "name=dropped" in await other.exec("CLIENT", "LIST", into=str)
            drop(clients, r"unclosed client of 127\.0\.0\.1:\d+: use")
            while "name=dropped" in await other.exec("CLIENT", "LIST", into=str):
                pass  # pytest's timeout is the limit

    asyncio.run(scenario())


def test_a_dropped_client_lets_go_of_its_file(tmp_path: Any) -> None:
    async def scenario() -> None:
        url = f"holdfast://{tmp_path}/app.db"
        clients = [await connected(url)]
        await clients[0].set("k", "v")
        drop(clients, r"unclosed client of .*app\.db")
        while True:  # pytest's timeout is the limit
            try:
                async with holdfast.connect(url) as again:
                    assert await again.get("k") == "v"
                break
            except ConnectError:
                await asyncio.sleep(0)

    asyncio.run(scenario())


def test_a_client_that_was_closed_or_never_connected_does_not_warn() -> None:
    async def scenario() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            client = await connected()
            await client.close()
            del client
            holdfast.connect("memory://")
            gc.collect()

    asyncio.run(scenario())


def test_a_loop_that_ends_closes_open_clients(redis_url: str) -> None:
    kept: list[Client] = []

    async def scenario() -> None:
        kept.append(await connected(redis_url))

    asyncio.run(scenario())
    assert kept[0].state is State.CLOSED
    kept.clear()
    gc.collect()  # a transport that is not closed would warn now


def test_a_dropped_blocking_client_warns_and_ends_its_thread() -> None:
    clients = [holdfast.sync.connect("memory://")]
    clients[0].connect()
    drop(clients, "unclosed client of :memory:")
    for thread in threading.enumerate():
        if thread.name == "holdfast client":
            thread.join()  # pytest's timeout is the limit


# -- in the wrong place -----------------------------------------------------------------------


def test_a_second_event_loop_is_refused(redis_url: str) -> None:
    with asyncio.Runner() as first, asyncio.Runner() as second:
        client = first.run(connected(redis_url))
        calls: list[Callable[[], Any]] = [
            client.ping,
            client.connect,
            client.close,
            lambda: client.within(1).get("k"),
            lambda: client.exec(Request().add("PING"), into=(str,)),
            lambda: client.transaction().add("PING").commit(),
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="connected in another event loop"):
                second.run(call())
        assert first.run(client.ping()) == "PONG"
        assert first.run(client.exec("ECHO", "in order", into=str)) == "in order"
        first.run(client.close())


def test_a_loop_that_is_gone_is_refused(redis_url: str) -> None:
    with asyncio.Runner() as first:
        client = first.run(connected(redis_url))
    assert client.state is State.CLOSED
    with pytest.raises(ClosedError, match="the client is closed"):
        asyncio.run(client.ping())


# In a process of their own: to fork a test's process, with all its threads, would be a gamble.
FORK = """
import asyncio, os, sys, warnings
import holdfast.sync

warnings.simplefilter("ignore", DeprecationWarning)  # of forks where threads run
url = sys.argv[1]


def in_child(work):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            print(work(), flush=True)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
FORK_ASYNC = """
async def main():
    client = holdfast.connect(url)
    await client.connect()
    return client

with asyncio.Runner() as runner:
    client = runner.run(main())
    in_child(lambda: asyncio.run(client.ping()))
    print(runner.run(client.ping()))
    runner.run(client.close())
"""
FORK_BLOCKING = """
def use_and_close():
    client.close()  # must not hang, nor take the parent's connection away
    return client.ping()

with holdfast.sync.connect(url) as client:
    in_child(use_and_close)
    print(client.ping())
"""


@pytest.mark.parametrize(
    ("script", "refusal"),
    [
        (FORK_ASYNC, "this client was connected in another event loop"),
        (FORK_BLOCKING, "this client was made before a fork: make one in each process"),
    ],
    ids=["async", "blocking"],
)
def test_a_forked_process_is_refused_and_does_no_harm(
    redis_url: str, script: str, refusal: str
) -> None:
    argv = [sys.executable, "-W", "error", "-c", FORK + script, redis_url]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=50)
    assert done.stderr == ""
    in_child, in_parent = done.stdout.splitlines()
    assert in_child.startswith(f"RuntimeError: {refusal}")
    assert in_parent == "PONG"


def test_a_hook_cannot_wait_for_its_own_blocking_client() -> None:
    class Caller(Hooks):
        error: Exception | None = None

        def request_start(self, event: RequestStart) -> None:
            if event.commands[0][0] == "PING":
                try:
                    client.get("k")
                except RuntimeError as error:
                    self.error = error

    hook = Caller()
    with holdfast.sync.connect("memory://", hooks=[hook]) as client:
        assert client.ping() == "PONG"
    assert "would wait for itself" in str(hook.error)


# -- at the wrong time ------------------------------------------------------------------------


def test_a_closed_client_stays_closed() -> None:
    async def scenario() -> None:
        client = await connected()
        await client.close()
        with pytest.raises(ClosedError, match="the client is closed"):
            await client.connect()
        with pytest.raises(ClosedError):
            async with client:
                pass
        never = holdfast.connect("memory://")
        await never.close()
        with pytest.raises(ClosedError):
            await never.connect()

    asyncio.run(scenario())


def test_connecting_twice_is_connecting_once() -> None:
    async def scenario() -> None:
        client = holdfast.connect("memory://")
        await asyncio.gather(client.connect(), client.connect())
        await client.connect()
        assert await client.ping() == "PONG"
        await client.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("localhost:1", "Connection refused"),
        ("nowhere.invalid:1", "Name or service not known|Temporary failure in name resolution"),
    ],
)
def test_a_failed_connect_says_the_same_again(address: str, reason: str) -> None:
    async def scenario() -> None:
        client = holdfast.connect(f"redis://{address}")
        for _ in range(2):
            with pytest.raises(ConnectError, match=f"^cannot connect to {address}: ({reason})$"):
                await client.connect()

    asyncio.run(scenario())


def test_pubsub_and_transactions_say_that_they_are_entered() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            with pytest.raises(NotConnectedError, match="async with"):
                await client.pubsub().subscribe("a")
            with pytest.raises(ValueError, match="async with"):
                await client.transaction("k").add("GET", "k").commit()
            with pytest.raises(ValueError, match="watched keys"):
                await client.transaction().exec("GET", "k")
            async with client.pubsub() as pubsub:
                pass
            with pytest.raises(ClosedError):
                await pubsub.subscribe("a")

    asyncio.run(scenario())


def test_closing_the_client_ends_lent_connections(play: Play) -> None:
    async def scenario(client: Client) -> None:
        pubsub = client.pubsub()
        await pubsub.__aenter__()
        await pubsub.subscribe("a")
        reader = asyncio.create_task(anext(pubsub, None))
        popping = asyncio.create_task(client.blpop("q", timeout_s=0))
        await turns()
        await client.close()
        assert await reader is None
        with pytest.raises(ClosedError):
            await popping

    play(scenario)


def test_an_impatient_close_ends_a_patient_one() -> None:
    async def scenario() -> None:
        rig = await Rig(close_grace_s=1000).open()
        waiting = rig.submit("PING")
        await turns()
        patient = asyncio.create_task(rig.connection.close())
        await turns()
        assert rig.is_in(State.CLOSING)
        await rig.connection.close(0)
        await patient
        with pytest.raises(ClosedError):
            await waiting

    asyncio.run(scenario())


# -- wrong arguments --------------------------------------------------------------------------


def test_arguments_that_cannot_be_sent_harm_no_other_call(play: Play) -> None:
    async def scenario(client: Client) -> None:
        bad: Any = None
        calls: list[Callable[[], Any]] = [
            lambda: client.exec("SET", "k", bad),
            lambda: client.set("k", bad),
            lambda: client.exec("BLPOP", bad, 0),
            lambda: client.exec(Request().add("SET", "k", bad), into=(None,)),
            lambda: client.transaction().add("SET", "k", bad).commit(),
        ]
        for call in calls:
            with pytest.raises(
                TypeError, match=r"argument [12] of .* must be str, bytes, int or float, not None"
            ):
                await call()
        with pytest.raises(TypeError, match="a command's name or a Request"):
            await client.exec(bad)
        with pytest.raises(TypeError, match="tuple of a name and arguments"):
            Request(["PING"])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="needs a name"):
            Request([()])
        with pytest.raises(ValueError, match="needs a name"):
            client.transaction().add()
        assert not client._caller._leased  # type: ignore[attr-defined]
        assert await client.exec("ECHO", "still in order", into=str) == "still in order"

    play(scenario)


def test_other_arguments_of_a_wrong_type_are_named(play: Play) -> None:
    async def scenario(client: Client) -> None:
        bad: Any = "1"
        calls: list[tuple[Callable[[], Any], str]] = [
            (
                lambda: client.within(bad).get("k"),
                "timeout_s is a number of seconds or None, not '1'",
            ),
            (
                lambda: client.binary.within(bad).blpop("k", timeout_s=1),
                "timeout_s is a number of seconds or None",
            ),
            (lambda: client.within(float("nan")).get("k"), "timeout_s is a number.*, not nan"),
            (
                lambda: client.exec("PING", timeout_s=bad),
                "timeout_s is a number of seconds or None",
            ),
            (
                lambda: client.exec_dynamic(Request([("PING",)]), timeout_s=bad),
                "timeout_s is a number",
            ),
            (lambda: client.mset(bad), "mapping of names and values, not '1'"),
            (lambda: client.hset("h", bad), "mapping of names and values, not '1'"),
            (lambda: client.zadd("z", bad), "mapping of names and values, not '1'"),
            (lambda: client.xadd("x", bad), "mapping of names and values, not '1'"),
            (lambda: client.script("return 1")("key"), "keys is a list of names, not 'key'"),
            (
                lambda: client.script("return 1")([], "arg"),
                "args is a list of arguments, not 'arg'",
            ),
            (lambda: client.exec_dynamic(bad), "takes a Request, not '1'"),
        ]
        for call, match in calls:
            with pytest.raises(TypeError, match=match):
                await call()

    play(scenario)


@pytest.mark.parametrize(
    "request_",
    [
        Request().add("MULTI").add("SET", "k", 1),
        Request().add("SET", "k", 1).add("EXEC"),
        Request().add("multi").add(b"Multi").add("EXEC").add("EXEC"),
        Request().add("MULTI").add("EXEC").add("DISCARD"),
    ],
    ids=lambda request: "-".join(str(args[0]) for args in request.commands),
)
def test_a_request_cannot_leave_a_transaction_open(play: Play, request_: Request) -> None:
    async def scenario(client: Client) -> None:
        with pytest.raises(ValueError, match=r"use client\.transaction\(\)"):
            await client.exec_dynamic(request_, into=str)
        whole = Request().add("MULTI").add("SET", "k", 2).add("EXEC")
        assert (await client.exec_dynamic(whole, into=lambda reply: reply))[-1] == [b"OK"]
        assert await client.get("k") == "2"

    play(scenario)


def test_commands_that_would_disturb_other_callers_are_refused_in_every_spelling(
    play: Play,
) -> None:
    async def scenario(client: Client) -> None:
        name: Any
        for name in ("MULTI", "multi", b"MULTI", "Subscribe", b"client"):
            with pytest.raises(ValueError, match=r"shared connection"):
                await client.exec(name, "REPLY", "OFF")
        for name in ("MULTI", "EXEC", "DISCARD", "SUBSCRIBE", "BLPOP"):
            with pytest.raises(ValueError, match=r"use client|alone"):
                client.transaction().add(name, "q", 0)
        async with client.transaction("k") as tx:
            for name in ("MULTI", "SUBSCRIBE", "SELECT", "BLPOP"):
                with pytest.raises(ValueError, match=r"use client|URL|alone"):
                    await tx.exec(name, "0")
            await tx.exec("WATCH", "another")
        assert await client.ping() == "PONG"

    play(scenario)
