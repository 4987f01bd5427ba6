"""The seed's six scripts one by one, as it lists them: arguments, returns, scores, expiry."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.client.errors import ServerError
from holdfast.coordination.backend import Backend
from holdfast.coordination.backend_of import backend_of
from holdfast.coordination.lua_scripts import load, names
from tests.semaphore.conftest import Place

MAIN, TTL, MAX = "{s}:main", "{s}:ttl", "{s}:max"
WAITING, BEATS = "{s}:waiting", "{s}:waiting_heartbeat"
PATTERN = "{s}:told:@@@ACQUISITION_ID@@@"
SEED = {
    "queue": (2, ["acquisition_id", "heartbeat_max_interval", "ttl", "now"]),
    "wake_up_nexts": (
        4,
        [
            *("limit", "heartbeat_max_interval", "ttl", "now"),
            "acquisition_notification_key_pattern",
        ],
    ),
    "acquire": (3, ["acquisition_id", "limit", "heartbeat_max_interval", "ttl", "now"]),
    "release": (4, ["acquisition_id"]),
    "ping": (3, ["acquisition_id", "heartbeat_max_interval", "ttl", "now"]),
    "card": (2, ["now"]),
}


class Scripts:
    """Calls by position; heartbeat 10 s, limit 2, no time limit, unless the test says otherwise."""

    def __init__(self, commands: Backend) -> None:
        self.commands = commands

    async def run(self, name: str, keys: list[str], *args: object) -> Any:
        script = load("holdfast.semaphore", name)
        texts = [str(arg) for arg in args]
        return await self.commands.call("EVAL", script.source, len(keys), *keys, *texts)

    async def queue(self, id: str, now: object, heartbeat: object = 10, ttl: object = "") -> None:
        assert await self.run("queue", [WAITING, BEATS], id, heartbeat, ttl, now) is None

    async def wake(
        self, now: object, limit: object = 2, heartbeat: object = 10, ttl: object = ""
    ) -> Any:
        keys = [MAIN, TTL, WAITING, BEATS]
        return await self.run("wake_up_nexts", keys, limit, heartbeat, ttl, now, PATTERN)

    async def acquire(
        self, id: str, now: object, limit: object = 2, heartbeat: object = 10, ttl: object = ""
    ) -> Any:
        return await self.run("acquire", [MAIN, TTL, MAX], id, limit, heartbeat, ttl, now)

    async def release(self, id: str) -> Any:
        return await self.run("release", [MAIN, TTL, WAITING, BEATS], id)

    async def ping(self, id: str, now: object, heartbeat: object = 10, ttl: object = "") -> Any:
        return await self.run("ping", [WAITING, BEATS, MAIN], id, heartbeat, ttl, now)

    async def card(self, now: object) -> Any:
        return await self.run("card", [MAIN, TTL], now)

    async def zset(self, key: str) -> dict[str, float]:
        members = await self.commands.call("ZRANGE", key, 0, -1)
        return {
            member.decode(): float(await self.commands.call("ZSCORE", key, member))
            for member in members
        }

    async def told(self, id: str) -> list[bytes]:
        told: list[bytes] = await self.commands.call("LRANGE", f"{{s}}:told:{id}", 0, -1)
        return told

    async def life_s(self, key: str) -> float:
        return int(await self.commands.call("PTTL", key)) / 1000


Test = Callable[[Scripts], Coroutine[Any, Any, None]]


@pytest.fixture
def play(place: Place) -> Callable[[Test], None]:
    def run(test: Test) -> None:
        async def scenario(client: Any) -> None:
            await test(Scripts(backend_of(client)))

        place.play(scenario)

    return run


Play = Callable[[Test], None]


@pytest.mark.parametrize("name", SEED)
def test_headers_declare_what_the_seed_lists(name: str) -> None:
    script = load("holdfast.semaphore", name)
    count, args = SEED[name]
    assert len(script.keys) == count
    assert list(script.args) == args


def test_every_include_is_used_by_a_script_that_is_shipped() -> None:
    shipped = [load("holdfast.semaphore", name) for name in names("holdfast.semaphore")]
    assert {script.name for script in shipped} > set(SEED)
    for include in names("holdfast.semaphore", "lua/lib"):
        source = load_include(include)
        assert any(source in script.source for script in shipped), include


def load_include(name: str) -> str:
    """The first function of an include."""
    from importlib.resources import files

    text = (files("holdfast.semaphore") / "lua" / "lib" / f"{name}.lua").read_text()
    return "local function" + text.split("local function")[1].rstrip()


# -- queue ------------------------------------------------------------------------------------


def test_queue_adds_to_both_queues_with_their_scores(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        await scripts.queue("a", now=1000.5)
        await scripts.queue("b", now=1001, heartbeat=2.5)
        assert await scripts.zset(WAITING) == {"a": 1000.5, "b": 1001}
        assert await scripts.zset(BEATS) == {"a": 1010.5, "b": 1003.5}

    play(test)


def test_queue_lets_keys_expire_but_never_sooner_than_others_need(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        await scripts.queue("a", now=1000, heartbeat=100, ttl=500)
        for key in (WAITING, BEATS):
            assert 500 <= await scripts.life_s(key) <= 1000
        await scripts.queue("b", now=1000, heartbeat=1, ttl=2)
        for key in (WAITING, BEATS):
            assert await scripts.life_s(key) > 500
        await scripts.queue("c", now=1000, heartbeat=9000)
        for key in (WAITING, BEATS):
            assert await scripts.life_s(key) >= 9000

    play(test)


def test_queue_again_keeps_the_place(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        await scripts.queue("a", now=1000)
        await scripts.queue("b", now=1001)
        await scripts.queue("a", now=1002)
        assert await scripts.zset(WAITING) == {"a": 1000, "b": 1001}
        assert await scripts.zset(BEATS) == {"a": 1012, "b": 1011}

    play(test)


def test_queue_keeps_the_order_within_one_moment_and_when_the_clock_goes_back(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        now = 1794727848.301886
        for id, at in (("z", now), ("m", now), ("a", now), ("b", now - 5)):
            await scripts.queue(id, now=at)
        assert list(await scripts.zset(WAITING)) == ["z", "m", "a", "b"]
        assert max((await scripts.zset(WAITING)).values()) == pytest.approx(now, abs=1e-5)

    play(test)


# -- wake_up_nexts ----------------------------------------------------------------------------


def test_wake_gives_free_slots_to_the_first_and_tells_them(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        for n, id in enumerate(["c", "a", "b"]):
            await scripts.queue(id, now=1000 + n)
        assert await scripts.wake(now=1005) == 2
        assert await scripts.zset(MAIN) == {"a": 1015, "c": 1015}
        assert await scripts.zset(WAITING) == {"b": 1002}
        assert await scripts.zset(BEATS) == {"b": 1012}
        assert [await scripts.told(id) for id in "abc"] == [[b"a"], [], [b"c"]]
        assert 10 <= await scripts.life_s(MAIN) <= 20
        assert 10 <= await scripts.life_s("{s}:told:a") <= 20
        assert await scripts.wake(now=1005) == 0
        assert await scripts.wake(now=1005, limit=3) == 1

    play(test)


def test_wake_without_waiters(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        assert await scripts.wake(now=1000) == 0
        assert await scripts.commands.call("EXISTS", MAIN, TTL, WAITING, BEATS) == 0

    play(test)


def test_wake_takes_slots_from_the_dead_and_the_overdue(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        for id in "abcd":
            await scripts.queue(id, now=1000, heartbeat=100)
        assert await scripts.wake(now=1000) == 2
        assert (await scripts.acquire("a", now=1000, heartbeat=100, ttl=7))[0] == 1
        assert (await scripts.acquire("b", now=1000, heartbeat=9))[0] == 1
        assert await scripts.wake(now=1006) == 0
        assert await scripts.wake(now=1007) == 1  # a overran its time limit
        assert await scripts.zset(TTL) == {}
        assert await scripts.wake(now=1009) == 1  # b was not heard of
        assert set(await scripts.zset(MAIN)) == {"c", "d"}

    play(test)


def test_wake_passes_over_waiters_that_died(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        await scripts.queue("dead", now=1000, heartbeat=5)
        await scripts.queue("alive", now=1001, heartbeat=5)
        assert await scripts.wake(now=1005, limit=1) == 1
        assert set(await scripts.zset(MAIN)) == {"alive"}
        assert await scripts.zset(WAITING) == await scripts.zset(BEATS) == {}
        assert await scripts.told("dead") == []

    play(test)


def test_waiters_with_a_mailbox_are_told_through_it(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        for n, id in enumerate(["box/1", "box/2", "a/b"]):
            await scripts.queue(id, now=1000 + n)
        assert await scripts.wake(now=1003, limit=3) == 3
        assert await scripts.told("box") == [b"box/1", b"box/2"]
        assert await scripts.told("a/b") == [b"a/b"]

    play(test)


# -- acquire ----------------------------------------------------------------------------------


def test_acquire_confirms_what_was_given(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        for id in "ab":
            await scripts.queue(id, now=1000)
        await scripts.wake(now=1000)
        assert await scripts.acquire("a", now=1002, ttl=60) == [1, 2]
        assert await scripts.zset(MAIN) == {"a": 1012, "b": 1010}
        assert await scripts.zset(TTL) == {"a": 1062}
        assert await scripts.commands.call("GET", MAX) == b"2"
        assert 60 <= await scripts.life_s(TTL) <= 120
        assert 60 <= await scripts.life_s(MAIN) <= 120
        assert 60 <= await scripts.life_s(MAX) <= 120
        assert await scripts.acquire("b", now=1000) == [1, 2]  # at the time it was woken, too
        assert await scripts.zset(TTL) == {"a": 1062}

    play(test)


def test_acquire_of_what_was_taken_away_inserts_nothing(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        assert await scripts.acquire("a", now=1000, ttl=60) == [0, 0]
        assert await scripts.zset(MAIN) == await scripts.zset(TTL) == {}

    play(test)


# -- release ----------------------------------------------------------------------------------


def test_release_removes_from_everywhere(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        for id in "abc":
            await scripts.queue(id, now=1000)
        await scripts.wake(now=1000)
        await scripts.acquire("a", now=1000, ttl=60)
        assert await scripts.release("a") == 1
        assert await scripts.release("a") == 0
        assert await scripts.release("c") == 0
        assert set(await scripts.zset(MAIN)) == {"b"}
        assert await scripts.release("b") == 1
        assert await scripts.commands.call("EXISTS", MAIN, TTL, WAITING, BEATS) == 0

    play(test)


# -- ping -------------------------------------------------------------------------------------


def test_ping_says_where_it_is_and_moves_no_place(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        for n, id in enumerate("ab"):
            await scripts.queue(id, now=1000 + n)
        await scripts.wake(now=1002, limit=1)
        assert await scripts.ping("a", now=1003) == [0, 1]
        assert await scripts.ping("b", now=1003) == [1, 0]
        assert await scripts.ping("b", now=1003) == [1, 0]  # also when nothing changes
        assert await scripts.ping("c", now=1003) == [0, 0]
        assert await scripts.zset(MAIN) == {"a": 1013}
        assert await scripts.zset(WAITING) == {"b": 1001}
        assert await scripts.zset(BEATS) == {"b": 1013}

    play(test)


def test_ping_prolongs_the_keys_and_shortens_none(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        for id in "ab":
            await scripts.queue(id, now=1000, heartbeat=1)
        await scripts.wake(now=1000, limit=1, heartbeat=1)
        for need, life in ((300, 300), (1, 300)):
            await scripts.ping("a", now=1000, heartbeat=need)
            for key in (MAIN, WAITING, BEATS):
                assert life <= await scripts.life_s(key) <= 600
        await scripts.ping("a", now=1000, heartbeat=1, ttl=5000)
        assert await scripts.life_s(MAIN) >= 5000

    play(test)


# -- card -------------------------------------------------------------------------------------


def test_card_counts_the_living(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        for id in "abc":
            await scripts.queue(id, now=1000)
        assert await scripts.card(now=1000) == 0
        await scripts.wake(now=1000, limit=3)
        await scripts.acquire("a", now=1000, ttl=4)
        await scripts.acquire("b", now=1005)
        assert await scripts.card(now=1003) == 3
        assert await scripts.card(now=1004) == 2
        assert await scripts.zset(TTL) == {}
        assert await scripts.card(now=1010) == 1
        assert await scripts.card(now=1015) == 0

    play(test)


# -- all of them ------------------------------------------------------------------------------


def test_without_a_time_the_server_decides(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        before_s = await scripts.commands.time_s(MAIN)
        await scripts.queue("a", now="")
        after_s = await scripts.commands.time_s(MAIN)
        (came_s,) = (await scripts.zset(WAITING)).values()
        assert before_s <= came_s <= after_s
        assert await scripts.wake(now="") == 1
        assert (await scripts.acquire("a", now="", ttl=5))[0] == 1
        assert await scripts.ping("a", now="") == [0, 1]
        assert await scripts.card(now="") == 1

    play(test)


def test_invalid_arguments_are_refused_before_anything_is_written(play: Play) -> None:
    async def test(scripts: Scripts) -> None:
        for call in (
            scripts.queue("a", now="soon"),
            scripts.queue("a", now=1, heartbeat=0),
            scripts.queue("a", now=1, ttl="x"),
            scripts.wake(now=1, limit="many"),
            scripts.wake(now=1, limit=1.5),
            scripts.wake(now=1, heartbeat="nan"),
            scripts.acquire("a", now=1, limit=0),
            scripts.acquire("a", now=1, ttl=-1),
            scripts.ping("a", now=1, heartbeat=1e300),
            scripts.card(now="x"),
        ):
            with pytest.raises(ServerError):
                await call
        assert await scripts.commands.call("EXISTS", MAIN, TTL, MAX, WAITING, BEATS) == 0

    play(test)
