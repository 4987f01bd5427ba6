"""Everything is cancelled at every turn of the loop that it takes, and leaves nothing behind.

The engine runs in this process, so an operation takes the same turns each time: after the first
turn, after the second, and so on until it is through.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.request import Request
from holdfast.client.topology.single import Single
from tests.client.fakes import turns

Operation = Callable[[Client], Awaitable[object]]
MAX_TURNS = 200


async def run_command(client: Client) -> None:
    assert await client.incr("n") > 0


async def run_with_timeout(client: Client) -> None:
    await client.within(5).get("k")


async def run_request(client: Client) -> None:
    request = Request(("INCR", "n") for _ in range(20))
    assert len(await client.exec_dynamic(request, into=int)) == 20


async def run_transaction(client: Client) -> None:
    assert len(await client.transaction().add("INCR", "n").add("INCR", "n").commit()) == 2


async def run_watched_transaction(client: Client) -> None:
    async with client.transaction("n") as tx:
        await tx.exec("GET", "n")
        await tx.add("INCR", "n").commit()


async def run_watched_read(client: Client) -> None:
    """Nothing is committed, which would end the watch."""
    async with client.transaction("n") as tx:
        await tx.exec("GET", "n")


async def run_script(client: Client) -> None:
    await client.script("return 1 -- never seen before " + str(id(object())))()


async def run_scan(client: Client) -> None:
    await client.mset({f"key:{n}": n for n in range(30)})
    assert len([key async for key in client.scan_iter("key:*", count=5)]) >= 30


async def run_pubsub(client: Client) -> None:
    async with client.pubsub() as pubsub:
        await pubsub.subscribe("a", "b")
        await client.publish("a", "hello")
        assert (await anext(pubsub)).text == "hello"
        await pubsub.unsubscribe()


async def run_endless_pop(client: Client) -> None:
    await client.blpop("nothing", timeout_s=0)


async def run_impatient_pop(client: Client) -> None:
    with pytest.raises(TimeoutError):
        await client.within(0.001).blpop("nothing", timeout_s=0)


OPERATIONS = [
    run_command,
    run_with_timeout,
    run_request,
    run_transaction,
    run_watched_transaction,
    run_watched_read,
    run_script,
    run_scan,
    run_pubsub,
    run_endless_pop,
    run_impatient_pop,
]
# How many turns these take depends on the clock, if they end at all.
WAITING = (run_endless_pop, run_impatient_pop)


async def cancelled_after(count: int, work: Awaitable[object]) -> bool:
    """Whether it was through before."""
    task = asyncio.ensure_future(work)
    await turns(count)
    through = task.done()
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(outcome, Exception):
        raise outcome
    return through


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """Also fails if anything was reported to the loop, or is still running at the end."""
    problems: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: problems.append(context)
        )
        await scenario()
        await turns()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert not problems


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_a_cancelled_operation_leaves_the_client_as_it_was(operation: Operation) -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            caller = client._caller
            assert isinstance(caller, Single)
            running = len(asyncio.all_tasks())
            for count in range(60 if operation in WAITING else MAX_TURNS):
                through = await cancelled_after(count, operation(client))
                token = f"after {count}"
                assert await client.exec("ECHO", token, into=str) == token
                assert caller.connection.pending == (0, 0)
                assert not caller._leased
                await client.set("n", count)  # which nothing watches any more
                async with client.transaction("other") as tx:
                    assert await tx.add("ECHO", token).commit(str) == [token]
                await turns()
                # Each connection that waits for the next blocking call has a task.
                assert len(asyncio.all_tasks()) <= running + len(caller._idle)
                if through:
                    break
            assert count > 0
            assert through or operation in WAITING, "it takes more turns than this test allows"

    run(scenario)


def test_a_cancelled_pop_keeps_its_element() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            got: list[str] = []

            async def pop() -> None:
                pair = await client.blpop("q", timeout_s=0)
                assert pair is not None
                got.append(pair[1])

            for count in range(MAX_TURNS):
                await client.rpush("q", count)
                through = await cancelled_after(count, pop())
                left = await client.lrange("q", 0, -1)
                assert [*got, *left] == [str(count)], count
                got.clear()
                await client.delete("q")
                if through:
                    break
            assert through

    run(scenario)


@pytest.mark.parametrize("pushed_after", range(0, 24, 3))
def test_a_cancelled_pop_keeps_its_element_also_after_its_time(pushed_after: int) -> None:
    """The time is over at once; the element is pushed so many turns later, and then cancelled."""

    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            got: list[str] = []

            async def pop() -> None:
                try:
                    pair = await client.within(0).blpop("q", timeout_s=0)
                except TimeoutError:
                    return
                assert pair is not None
                got.append(pair[1])

            async def push(count: int) -> None:
                await turns(pushed_after)
                await client.rpush("q", count)

            for count in range(60):
                pushing = asyncio.ensure_future(push(count))
                await cancelled_after(count, pop())
                await pushing
                left = await client.lrange("q", 0, -1)
                assert [*got, *left] == [str(count)], count
                got.clear()
                await client.delete("q")

    run(scenario)


def test_a_cancelled_connect_can_be_closed() -> None:
    async def scenario() -> None:
        for count in range(MAX_TURNS):
            client = holdfast.connect("memory://")
            through = await cancelled_after(count, client.connect())
            await client.close()
            assert client.state is State.CLOSED
            if through:
                break
        assert count > 1
        assert through

    run(scenario)


def test_a_cancelled_block_closes_its_client() -> None:
    async def scenario() -> None:
        clients: list[Client] = []

        async def block() -> None:
            clients.append(holdfast.connect("memory://"))
            async with clients[-1] as client:
                await client.set("k", "v")
                await client.transaction("k").__aenter__()  # and it is never given back
                await client.pubsub().__aenter__()

        for count in range(MAX_TURNS):
            through = await cancelled_after(count, block())
            assert not clients or clients[-1].state is State.CLOSED, count
            if through:
                break
        assert count > 5
        assert through

    run(scenario)


def test_a_cancelled_close_still_closes() -> None:
    async def scenario() -> None:
        for count in range(MAX_TURNS):
            client = holdfast.connect("memory://")
            await client.connect()
            calls = [client.incr("n"), client.blpop("q", timeout_s=0), client.ping()]
            waiting = [asyncio.ensure_future(call) for call in calls]
            await turns(count % 7)
            through = await cancelled_after(count, client.close())
            await client.close()
            await asyncio.gather(*waiting, return_exceptions=True)
            assert client.state is State.CLOSED
            if through:
                break
        assert count > 1
        assert through

    run(scenario)
