"""Which messages a waiter believes without asking, and that none is missed."""

import asyncio
from typing import Any

import pytest

from holdfast.client.errors import ClientError
from holdfast.coordination.backend import Backend, Prepared, Rest
from holdfast.coordination.backend_of import backend_of
from holdfast.coordination.lua_scripts import LuaScript, load
from holdfast.semaphore import Semaphore, keeper
from holdfast.semaphore.acquisition import Acquisition
from holdfast.semaphore.keeper import Keeper
from holdfast.semaphore.waiter import SlotWaiter
from tests.client.fakes import hang_up_behind_reply, turns, until
from tests.semaphore.conftest import Place, World, emptied, taken, waiting


@pytest.mark.parametrize(
    ("token", "heartbeat_s", "now_s", "is_believed"),
    [
        (101, 10, 1009, True),
        (100, 10, 1001, False),  # from before the server last called it waiting
        (101, 10, 1010, False),  # the server may have given up by now
        (101, 9, 1001, False),  # or may do so earlier than the waiter would expect
        (101, 11, 1001, True),
    ],
)
def test_a_message_is_believed_if_it_cannot_be_wrong(
    token: int, heartbeat_s: float, now_s: float, is_believed: bool
) -> None:
    waiter = SlotWaiter()
    waiter.still_waits(last_token=100, asked_s=1000)
    waiter.believe(["id", str(token), "2", str(heartbeat_s)], 10, now_s)
    assert (waiter.acquisition is not None) == is_believed
    if waiter.acquisition is not None:
        assert waiter.acquisition.fencing_token == token
        assert waiter.acquisition.slot_number == 2
        assert waiter.acquisition.renewed_s == 1000


def test_a_waiter_that_was_never_called_waiting_believes_nothing() -> None:
    waiter = SlotWaiter()
    waiter.believe(["id", "999999999999999999", "1", "10"], 10, 0)
    assert waiter.acquisition is None


def test_a_message_that_comes_before_the_answer_is_kept_until_then() -> None:
    waiter = SlotWaiter()
    waiter.believe(["id", "101", "1", "10"], 10, 0)
    assert waiter.message is not None
    waiter.still_waits(last_token=100, asked_s=0)
    waiter.believe(waiter.message, 10, 0)
    assert waiter.acquisition is not None


def test_a_waiter_let_in_before_it_knows_that_it_waits_does_not_ask_again(
    place: Place, world: World
) -> None:
    async def scenario(client: Any) -> None:
        semaphore = world.semaphore(client)
        first = await semaphore.acquire()
        asked: list[str] = []
        keeper = semaphore._keeper()
        keeper.backend = Overtaken(keeper, asked)
        acquisition = await semaphore.acquire()
        assert acquisition.fencing_token == first.fencing_token + 1
        assert asked == ["enter"]

    place.play(scenario)


class Overtaken:
    """Commands whose reply to a waiter comes after the message of another task's release."""

    def __init__(self, keeper: Keeper, asked: list[str]) -> None:
        self._keeper = keeper
        self._commands = keeper.backend
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._commands, name)

    def prepare(self, script: LuaScript, before: Rest, after: Rest) -> Prepared:
        send = self._commands.prepare(script, before, after)

        async def run(each: str) -> Any:
            self._asked.append(script.name)
            reply = await send(each)
            (holder,) = self._keeper._held
            args: dict[str, Any] = {"acquisition_id": holder, "mailbox": self._keeper._box}
            _, message = await self._keeper.run(load("holdfast.semaphore", "leave"), **args)
            self._keeper._read(self._keeper._box, message)
            return reply

        return run


def test_messages_that_are_old_or_make_no_sense_let_no_waiter_in(
    place: Place, world: World
) -> None:
    async def scenario(client: Any) -> None:
        commands = backend_of(client)
        semaphore = world.semaphore(client)
        first = await semaphore.acquire()
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore)
        names = semaphore._settings.names
        (id,) = await commands.call("ZRANGE", names.keys["waiting"], 0, -1)
        box, _, _ = id.decode().partition("/")
        for message in (b"%s 5 1 180", b"%s", b"%s a b c", b"not %s 9999999999999999 1", b"\xc3%s"):
            await commands.call("RPUSH", names.mailbox(box), message % id)
        while await commands.call("EXISTS", names.mailbox(box)):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.001)
        await turns(50)
        assert not waiter.done()
        await waiting(semaphore)
        await semaphore.release(first)
        await semaphore.release(await waiter)
        await emptied(client)

    place.play(scenario)


def test_the_heartbeat_of_many_goes_in_batches(
    redis_place: Place, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "_BATCH", 2)

    async def scenario(client: Any) -> None:
        semaphore = world.semaphore(client, 2, heartbeat_max_interval_s=10)
        held = [await semaphore.acquire() for _ in range(2)]
        waiters = [asyncio.create_task(semaphore.acquire()) for _ in range(5)]
        await waiting(semaphore, 5)
        for _ in range(8):  # much longer than any of them would live
            beaten_s = semaphore._keeper()._beaten_s
            while semaphore._keeper()._beaten_s == beaten_s:
                world.clock.advance(0.5)
                await turns(5)
                await semaphore.count()
        await waiting(semaphore, 5)
        await taken(semaphore, 2)
        for acquisition in held:
            assert await semaphore.release(acquisition)
        for waiter in asyncio.as_completed(waiters):
            assert await semaphore.release(await waiter)

    redis_place.play(scenario)


@pytest.mark.parametrize("options", [{"ttl_s": 500}, {"heartbeat_max_interval_s": 500}, {}])
def test_a_waiter_that_is_let_in_has_its_own_time_limits(
    place: Place, world: World, options: dict[str, Any]
) -> None:
    async def scenario(client: Any) -> None:
        commands = backend_of(client)
        one = world.semaphore(client, heartbeat_max_interval_s=10)
        other = world.semaphore(client, **{"heartbeat_max_interval_s": 10} | options)
        first = await one.acquire()
        waiter = asyncio.create_task(other.acquire())
        await waiting(one)
        world.clock.advance(0.5)
        await one.release(first)
        acquisition = await waiter
        await taken(one, 1)
        now_s = world.clock.now_us() / 1e6
        keys = other._settings.names.keys
        until_s = float(await commands.call("ZSCORE", keys["main"], acquisition.id))
        limit = await commands.call("ZSCORE", keys["ttl"], acquisition.id)
        heartbeat_s = options.get("heartbeat_max_interval_s", 10)
        if not options:  # its message is beyond doubt: it has the lease that its last pulse began
            now_s -= 0.5
        assert until_s == pytest.approx(now_s + heartbeat_s, abs=1e-3)
        assert (limit is None) == ("ttl_s" not in options)
        assert limit is None or float(limit) == pytest.approx(now_s + 500, abs=1e-3)

    place.play(scenario)


# -- the reply to release ---------------------------------------------------------------------


def test_release_tells_the_waiters_of_its_own_loop_and_posts_to_others(
    place: Place, world: World
) -> None:
    async def scenario(client: Any) -> None:
        commands = backend_of(client)
        mine = world.semaphore(client, 3)
        keys = mine._settings.names.of(load("holdfast.semaphore", "leave"))
        held = [await mine.acquire() for _ in range(3)]
        for id in ("box/1", "other/1", "single", "box/2"):
            await mine._keeper().run(load("holdfast.semaphore", "enter"), acquisition_id=id)

        async def leave(id: str) -> Any:
            script = load("holdfast.semaphore", "leave")
            args = mine._settings.args_of(script, {"acquisition_id": id, "mailbox": "box"})
            return await commands.run(script, keys, args)

        removed, message = await leave(held[0].id)
        token = held[2].fencing_token + 1
        assert (removed, message) == (1, b"box/1 %d 3 180" % token)
        assert await leave(held[1].id) == 1
        assert await leave(held[2].id) == 1
        assert await leave("nobody") == 0
        removed, message = await leave("single")
        assert (removed, message) == (1, b"box/2 %d 3 180" % (token + 3))
        lists = [mine._settings.names.mailbox(box) for box in ("box", "other", "single")]
        posted = [await commands.call("LRANGE", each, 0, -1) for each in lists]
        other, single = b"other/1 %d 3 180" % (token + 1), b"single %d 3 180" % (token + 2)
        assert posted == [[], [other], [single]]

    place.play(scenario)


def test_release_passes_over_waiters_that_died(place: Place, world: World) -> None:
    async def scenario(client: Any) -> None:
        commands = backend_of(client)
        semaphore = world.semaphore(client, heartbeat_max_interval_s=10)
        first = await semaphore.acquire()
        dying = world.semaphore(client, heartbeat_max_interval_s=2)
        enter = load("holdfast.semaphore", "enter")
        for id in ("dead", "dead too"):
            await dying._keeper().run(enter, acquisition_id=id)
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore, 3)
        world.clock._now_us += 3_000_000  # the server's time, unnoticed by the clients
        await semaphore.release(first)
        acquisition = await waiter
        keys = semaphore._settings.names.keys
        assert await commands.call("ZRANGE", keys["main"], 0, -1) == [acquisition.id.encode()]
        assert await commands.call("PTTL", keys["main"]) > 0
        assert await commands.call("EXISTS", keys["waiting"], keys["waiting_heartbeat"]) == 0
        assert await commands.call("EXISTS", semaphore._settings.names.mailbox("dead")) == 0

    place.play(scenario)


class Deaf:
    """Commands whose reply to the next release is lost: the caller sees an error, or the reply to
    the same command sent again, as clients of others do it."""

    def __init__(self, commands: Backend, *, sends_again: bool) -> None:
        self._commands = commands
        self._sends_again = sends_again
        self.is_deaf = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._commands, name)

    def prepare(self, script: LuaScript, before: Rest, after: Rest) -> Prepared:
        send = self._commands.prepare(script, before, after)

        async def run(each: str) -> Any:
            reply = await send(each)
            if script.name == "leave" and self.is_deaf:
                self.is_deaf = False
                if self._sends_again:
                    return await send(each)
                raise ClientError("lost", may_have_executed=True)
            return reply

        return run


async def advanced(world: World, waiter: "asyncio.Task[Acquisition]") -> Acquisition:
    """The acquisition that comes at once, without a poll: no time passes."""
    while not waiter.done():
        world.clock.advance(0)
        await asyncio.sleep(0)
    return await waiter


@pytest.mark.parametrize("sends_again", [True, False])
def test_a_waiter_gets_in_though_the_reply_to_the_release_is_lost(
    place: Place, world: World, sends_again: bool
) -> None:
    async def scenario(client: Any) -> None:
        semaphore = world.semaphore(client)
        deaf = Deaf(backend_of(client), sends_again=sends_again)
        semaphore._keeper().backend = deaf
        first = await semaphore.acquire()
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore)
        if sends_again:
            assert not await semaphore.release(first)
        else:
            with pytest.raises(ClientError, match="lost"):
                await semaphore.release(first)
        await semaphore.release(await advanced(world, waiter))
        assert not deaf.is_deaf

    place.play(scenario)


@pytest.mark.parametrize("count", range(1, 7))
def test_a_waiter_gets_in_though_the_release_is_cancelled(
    place: Place, world: World, count: int
) -> None:
    async def scenario(client: Any) -> None:
        semaphore = world.semaphore(client)
        first = await semaphore.acquire()
        waiter = asyncio.create_task(semaphore.acquire())
        await waiting(semaphore)
        releasing = asyncio.create_task(semaphore.release(first))
        await turns(count)
        releasing.cancel()
        await asyncio.gather(releasing, return_exceptions=True)
        await semaphore.release(await advanced(world, waiter))

    place.play(scenario)


def test_a_mailbox_whose_connection_breaks_costs_no_holder_its_slot(redis_place: Place) -> None:
    """The connection ends with a message to the mailbox, and the keeper reads on at once."""

    async def scenario(client: Any) -> None:
        async with redis_place.opened() as other:
            mine, theirs = Semaphore(client, "s", 2), Semaphore(other, "s", 2)
            first, theirs_first = await mine.acquire(), await theirs.acquire()
            asking = asyncio.create_task(mine.acquire())
            await waiting(theirs)
            leased = client._caller._leased
            await until(lambda: any(each.pending[0] for each in leased))
            (listening,) = leased
            hang_up_behind_reply(listening)
            await theirs.release(theirs_first)
            second = await asking
            await until(lambda: listening not in leased)
            await turns(100)
            assert not first.lost.is_set()
            assert not second.lost.is_set()
            assert any(each.pending[0] for each in leased), "it goes on listening"
            for each in (first, second):
                assert await mine.release(each)

    redis_place.play(scenario)
