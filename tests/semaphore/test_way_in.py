"""`enter` and `leave` without other holders and waiters: the shortcut has the same effects."""

from typing import Any

import pytest

from holdfast.client.errors import ServerError
from holdfast.coordination.backend import Backend
from holdfast.coordination.backend_of import backend_of
from holdfast.coordination.lua_scripts import load
from holdfast.semaphore.names import Names
from tests.semaphore.conftest import Place

NAMES = Names("way", "s")
KEYS = NAMES.keys
NOW_S = 1_800_000_000.5
FIRST_TOKEN = 1_800_000_000_500_000


class Door:
    """Limit 2, heartbeat 10 s, no time limit, unless the test says otherwise."""

    def __init__(self, commands: Backend) -> None:
        self.call = commands.call
        self._commands = commands

    async def run(self, name: str, id: str, **args: Any) -> Any:
        script = load("holdfast.semaphore", name)
        values = {
            "acquisition_id": id,
            "limit": 2,
            "heartbeat_max_interval": 10,
            "ttl": "",
            "now": NOW_S,
            "acquisition_notification_key_pattern": NAMES.pattern,
            "mailbox": "",
            "is_exact": "",
            **args,
        }
        wanted = {name: values[name] for name in script.args}
        return await self._commands.run(script, NAMES.of(script), wanted)

    async def pass_through(self, **args: Any) -> Any:
        """In and out."""
        answer = await self.run("enter", "passer", **args)
        assert await self.run("leave", "passer", **args) == 1
        return answer

    async def score(self, key: str, id: str) -> float:
        return float(await self.call("ZSCORE", KEYS[key], id))

    async def life_s(self, key: str) -> float:
        return int(await self.call("PTTL", KEYS[key])) / 1000


def test_the_second_one_finds_what_the_first_one_left(place: Place) -> None:
    async def scenario(client: Any) -> None:
        door = Door(backend_of(client))
        assert await door.pass_through() == [1, 1, FIRST_TOKEN]
        assert await door.run("enter", "a", now=NOW_S + 1) == FIRST_TOKEN + 1
        assert await door.score("main", "a") == NOW_S + 11
        assert 10 < await door.life_s("main") <= 20
        assert 10 < await door.life_s("max") <= 20
        assert await door.call("EXISTS", KEYS["ttl"], KEYS["waiting"]) == 0
        assert await door.run("leave", "a") == 1
        assert await door.run("leave", "a") == 0
        assert await door.call("EXISTS", KEYS["main"], KEYS["waiting"]) == 0

    place.play(scenario)


def test_so_it_is_with_a_time_limit(place: Place) -> None:
    async def scenario(client: Any) -> None:
        door = Door(backend_of(client))
        await door.pass_through(ttl=60)
        assert await door.run("enter", "a", ttl=60.5) == FIRST_TOKEN + 1
        assert await door.score("main", "a") == NOW_S + 10
        assert await door.score("ttl", "a") == NOW_S + 60.5
        for key in ("main", "ttl", "max"):
            assert 60 < await door.life_s(key) <= 121
        assert await door.run("leave", "a", ttl=60.5) == 1
        assert await door.call("EXISTS", KEYS["main"], KEYS["ttl"]) == 0

    place.play(scenario)


def test_so_it_is_by_the_time_of_the_server(place: Place) -> None:
    async def scenario(client: Any) -> None:
        door = Door(backend_of(client))
        await door.pass_through(now="")
        before_s = await backend_of(client).time_s(KEYS["main"])
        token = await door.run("enter", "a", now="")
        after_s = await backend_of(client).time_s(KEYS["main"])
        assert type(token) is int
        assert before_s + 10 <= await door.score("main", "a") <= after_s + 10
        assert before_s - 60 < token / 1e6 <= after_s

    place.play(scenario)


def test_a_limit_that_has_another_value_or_not_long_to_live_is_set(place: Place) -> None:
    async def scenario(client: Any) -> None:
        door = Door(backend_of(client))
        await door.pass_through()
        await door.pass_through(limit=3)
        assert await door.call("GET", KEYS["max"]) == b"3"
        await door.call("PEXPIRE", KEYS["max"], 9000)
        await door.run("enter", "a", limit=3)
        assert await door.life_s("max") > 10
        await door.run("leave", "a", limit=3)
        await door.pass_through(limit=3, heartbeat_max_interval=500)
        assert await door.life_s("max") > 500
        await door.pass_through(limit=3)
        assert await door.life_s("max") > 500

    place.play(scenario)


@pytest.mark.parametrize("lost", [("token",), ("token", "max")])
def test_tokens_begin_with_the_time_when_theirs_was_lost(
    place: Place, lost: tuple[str, ...]
) -> None:
    async def scenario(client: Any) -> None:
        door = Door(backend_of(client))
        await door.pass_through()
        for key in lost:
            await door.call("DEL", KEYS[key])
        assert await door.pass_through(now=NOW_S + 1) == [1, 1, FIRST_TOKEN + 1_000_000]
        assert 3500 < await door.life_s("token") <= 3600
        assert await door.pass_through(now=NOW_S + 1) == FIRST_TOKEN + 1_000_001

    place.play(scenario)


def test_a_waiter_is_not_overtaken_when_all_holders_are_gone(place: Place) -> None:
    async def scenario(client: Any) -> None:
        door = Door(backend_of(client))
        await door.run("enter", "a", limit=1)
        await door.run("enter", "b", limit=1)
        await door.call("DEL", KEYS["main"])
        assert await door.run("enter", "c", limit=1) == -(FIRST_TOKEN + 1)
        assert await door.call("ZRANGE", KEYS["main"], 0, -1) == [b"b"]

    place.play(scenario)


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat_max_interval": "nan"},
        {"heartbeat_max_interval": 0},
        {"heartbeat_max_interval": 1e300},
        {"ttl": 0},
        {"ttl": "x"},
        {"ttl": "inf"},
        {"now": "soon"},
        {"limit": "many"},
        {"limit": 1.5},
    ],
)
def test_invalid_arguments_are_refused_on_the_short_way_too(
    place: Place, wrong: dict[str, Any]
) -> None:
    async def scenario(client: Any) -> None:
        door = Door(backend_of(client))
        await door.pass_through()
        with pytest.raises(ServerError, match=r"must be|is no number"):
            await door.run("enter", "a", **wrong)
        assert await door.call("EXISTS", KEYS["main"], KEYS["ttl"], KEYS["waiting"]) == 0
        assert int(await door.call("GET", KEYS["token"])) == FIRST_TOKEN

    place.play(scenario)


# -- the server's clock jumps, as the guide says ----------------------------------------------


async def one_holds_and_two_wait(door: Door) -> None:
    assert await door.run("enter", "a", limit=1) == [1, 1, FIRST_TOKEN]
    for id in ("b", "c"):
        assert await door.run("enter", id, limit=1) == -FIRST_TOKEN


def test_a_clock_that_is_set_back_leaves_slots_and_places(place: Place) -> None:
    async def scenario(client: Any) -> None:
        door = Door(backend_of(client))
        await one_holds_and_two_wait(door)
        now = NOW_S - 1000
        assert await door.run("enter", "d", limit=1, now=now) == -FIRST_TOKEN
        for id, following in ("ab", "bc", "cd"):
            assert await door.run("leave", id, limit=1, now=now) == 1
            assert await door.call("ZRANGE", KEYS["main"], 0, -1) == [following.encode()]

    place.play(scenario)


def test_after_a_jump_ahead_the_first_that_asks_gets_in_and_the_others_queue_again(
    place: Place,
) -> None:
    async def scenario(client: Any) -> None:
        door = Door(backend_of(client))
        await one_holds_and_two_wait(door)
        now = NOW_S + 1000
        assert await door.run("enter", "d", limit=1, now=now) == [1, 1, FIRST_TOKEN + 1]
        assert await door.run("enter", "c", limit=1, now=now) == -(FIRST_TOKEN + 1)
        assert await door.run("leave", "a", limit=1, now=now) == 0  # so it is told
        assert await door.call("ZRANGE", KEYS["main"], 0, -1) == [b"d"]

    place.play(scenario)
