"""Lists, streams and schedules of no library; names and bodies of strangers; a bounded search."""

import asyncio
import time
from typing import Any

import pytest

import holdfast
from holdfast.client import Client
from holdfast.web.readers.pace import pace_for
from holdfast.web.readers.queues import Direction, Measured, QueueId, QueueReader
from holdfast.web.readers.queues.recognise import recognise
from holdfast.web.readers.queues.search import MOST_QUEUES, Search
from tests.harness.processes import ServerProcess
from tests.web.readers.conftest import Play


class Ticks:
    """A clock that moves on by a second at each look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


async def look(reader: QueueReader, name: bytes) -> Measured:
    found = [each for each in (await reader.look()).queues if each.state.id.name == name]
    assert found, name
    return found[0]


def test_a_list_grows(play: Play) -> None:
    async def scenario(client: Client) -> None:
        reader = QueueReader(client, Ticks())
        await client.exec("RPUSH", "emails", "one", '{"to": "you"}', into=Any)
        first = await look(reader, b"emails")
        assert (first.state.waiting, first.flow) == (2, None)
        await client.exec("RPUSH", "emails", *map(str, range(10)), into=Any)
        second = await look(reader, b"emails")
        assert second.flow is not None
        assert (second.flow.net_per_s, second.flow.direction) == (10.0, Direction.GROWING)
        page = await reader.jobs(first.state.id, "elements", 0, 2)
        assert [job.body.kind for job in page.jobs if job.body] == ["text", "json"]
        assert page.is_part
        await client.exec("DEL", "emails", into=Any)
        assert (await reader.look()).queues == ()

    play(scenario)


def test_a_stream_shows_its_groups(play: Play) -> None:
    async def scenario(client: Client) -> None:
        for number in range(5):
            await client.exec("XADD", "orders", f"{1000 + number}-0", "n", number, into=Any)
        await client.exec("XGROUP", "CREATE", "orders", "<b>", "0", into=Any)
        read = ("XREADGROUP", "GROUP", "<b>", "ann", "COUNT", "2", "STREAMS", "orders", ">")
        await client.exec(*read, into=Any)
        reader = QueueReader(client, Ticks())
        state = (await look(reader, b"orders")).state
        assert (state.waiting, state.active, state.added, state.consumers) == (3, 2, 5, 1)
        (group,) = state.groups
        assert (group.name, group.lag, group.pending) == ("<b>", 3, 2)
        assert [(each.name, each.pending) for each in group.consumers] == [("ann", 2)]
        seconds = (await client.exec("TIME", into=list[str]))[0]
        assert state.oldest_ms is not None
        assert abs(state.oldest_ms - (int(seconds) * 1000 - 1002)) < 60_000
        page = await reader.jobs(state.id, "entries", 0, 2)
        assert [job.id for job in page.jobs] == ["1004-0", "1003-0"]
        assert page.jobs[0].body is not None
        assert page.jobs[0].body.text == "n: 4"

    play(scenario)


def test_a_sorted_set_is_a_schedule_if_all_its_scores_are_times(play: Play) -> None:
    async def scenario(client: Client) -> None:
        now_s = time.time()
        await client.exec("ZADD", "in-s", now_s - 50, "a", now_s + 5000, "b", into=Any)
        await client.exec("ZADD", "in-ms", (now_s - 50) * 1000, "a", into=Any)
        await client.exec("ZADD", "points", 3, "a", now_s, "b", into=Any)
        reader = QueueReader(client, Ticks())
        states = {each.state.id.name: each.state for each in (await reader.look()).queues}
        assert set(states) == {b"in-s", b"in-ms"}
        assert (states[b"in-s"].waiting, states[b"in-s"].delayed) == (1, 1)
        for state in states.values():
            assert state.oldest_ms is not None
            assert 50_000 <= state.oldest_ms < 110_000
        page = await reader.jobs(states[b"in-s"].id, "later")
        assert [job.id for job in page.jobs] == ["b"]

    play(scenario)


def test_elements_of_100_mb_are_not_asked_for(place: ServerProcess, play: Play) -> None:
    with place.client(timeout_s=120) as raw:
        raw.command("RPUSH", "jobs", b"x" * 100_000_000, "small")

    async def scenario(client: Client) -> None:
        reader = QueueReader(client, Ticks())
        assert (await look(reader, b"jobs")).state.waiting == 2
        page = await reader.jobs(QueueId("plain list", b"jobs"), "elements")
        assert page.jobs == ()
        assert "too large to show" in page.note

    play(scenario)


def test_a_large_element_among_small_ones_is_cut_on_the_server(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await client.exec("RPUSH", "jobs", *["small"] * 200, "x" * 3_000_000, "last", into=Any)
        reader = QueueReader(client, Ticks())
        page = await reader.jobs(QueueId("plain list", b"jobs"), "elements", 198, 10)
        bodies = [job.body for job in page.jobs if job.body]
        assert [body.size for body in bodies][:3] == [5, 5, 3_000_000]
        assert bodies[2].is_cut
        assert len(bodies[2].text) == 65_536

    play(scenario)


def test_names_that_are_no_text_are_shown_and_found_again(play: Play) -> None:
    async def scenario(client: Client) -> None:
        name = b"<script>\xff\n*?[\\"
        await client.exec("RPUSH", name, b"\xff<b>", into=Any)
        await client.exec("RPUSH", b"rq:queue:" + name, b"id\xff", into=Any)
        reader = QueueReader(client, Ticks())
        for queue in (await reader.look()).queues:
            assert queue.state.id.name == name
            assert queue.state.id.text == "<script>\\xff\\n*?[\\"
            again = await reader.queue(queue.state.id)
            assert again is not None
            assert again.state.waiting == 1
            state = queue.state.counts[0].state
            assert len((await reader.jobs(queue.state.id, state)).jobs) == 1

    play(scenario)


def test_a_user_without_scripts_sees_small_lists_only(place: ServerProcess, play: Play) -> None:
    async def scenario(client: Client) -> None:
        await client.exec("RPUSH", "small", "a", "b", into=Any)
        await client.exec("RPUSH", "large", *["x" * 100_000] * 30, into=Any)
        rules = ("ACL", "SETUSER", "ann", "reset", "on", "nopass", "~*", "+@all", "-@scripting")
        await client.exec(*rules, into=Any)
        async with holdfast.connect(f"redis://ann:x@127.0.0.1:{place.port}") as limited:
            reader = QueueReader(limited, Ticks())
            assert len((await reader.look()).queues) == 2
            page = await reader.jobs(QueueId("plain list", b"small"), "elements")
            assert [job.body.text for job in page.jobs if job.body] == ["a", "b"]
            page = await reader.jobs(QueueId("plain list", b"large"), "elements")
            assert page.jobs == ()
            assert "may not run scripts" in page.note

    play(scenario)


def test_ten_thousand_queues_take_turns(play: Play) -> None:
    async def scenario(client: Client) -> None:
        make = "for n = 1, 10000 do redis.call('RPUSH', 'q' .. n, n) end"
        await client.exec("EVAL", make, 0, into=Any)
        reader = QueueReader(client, Ticks())
        calls = []
        for _ in range(3):
            before = await client.exec("INFO", "stats", into=str)
            view = await reader.look(pace_for(0.0))
            after = await client.exec("INFO", "stats", into=str)
            calls.append(_commands(after) - _commands(before))
        assert 100 <= len(view.queues) <= 400
        assert 0 < view.share <= 1
        assert max(calls) < 700, calls

    play(scenario)


MANY_KEYS = "for n = 1, 20000 do redis.call('SET', 'user:' .. n, n) end"


def test_queues_in_known_places_are_found_before_all_keys_were_read(play: Play) -> None:
    async def scenario(client: Client) -> None:
        await client.exec("EVAL", MANY_KEYS, 0, into=Any)
        for name in ("high", "low", "default"):
            await client.exec("SADD", "rq:queues", f"rq:queue:{name}", into=Any)
        await client.exec("RPUSH", "rq:queue:high", "one", into=Any)
        await client.exec("RPUSH", "saq:default:queued", "two", into=Any)
        view = await QueueReader(client, Ticks()).look(pace_for(0.5))
        found = [(each.state.id.library, each.state.id.name) for each in view.queues]
        assert found == [("rq", b"default"), ("rq", b"high"), ("rq", b"low"), ("saq", b"default")]
        assert view.share < 0.5

    play(scenario)


def test_a_queue_that_comes_later_is_found_in_the_next_round(play: Play) -> None:
    async def scenario(client: Client) -> None:
        reader = QueueReader(client, Ticks())
        assert (await reader.look(pace_for(0.0))).queues == ()
        await client.exec("SADD", "rq:queues", "rq:queue:empty", into=Any)
        assert (await look(reader, b"empty")).state.waiting == 0

    play(scenario)


@pytest.mark.parametrize(
    "command", ["SET rq:queues x", "SADD rq:queues {huge}", "SADD rq:queues x"]
)
def test_a_strange_key_in_a_known_place_hides_no_queue(place: ServerProcess, command: str) -> None:
    async def scenario() -> None:
        url = f"redis://127.0.0.1:{place.port}"
        async with holdfast.connect(url, max_reply_bytes=1 << 20) as client:
            words = command.format(huge="x" * (2 << 20)).split()
            await client.exec(*words, into=Any)
            await client.exec("RPUSH", "rq:queue:high", "one", into=Any)
            view = await QueueReader(client, Ticks()).look(pace_for(0.0))
            assert [each.state.id.name for each in view.queues] == [b"high"]

    asyncio.run(scenario())


def test_the_page_tells_how_many_queues_wait_to_be_counted(play: Play) -> None:
    async def scenario(client: Client) -> None:
        names = [f"rq:queue:{n}" for n in range(300)]
        await client.exec("SADD", "rq:queues", *names, into=Any)
        view = await QueueReader(client, Ticks()).look(pace_for(0.0))
        assert (len(view.queues), view.found) == (100, 300)

    play(scenario)


def test_the_search_ends_at_a_bound() -> None:
    search = Search()
    for n in range(MOST_QUEUES + 5):
        search.add(recognise("list", b"q%d" % n))
    assert len(search.found) == MOST_QUEUES
    assert search.is_full


def _commands(info: str) -> int:
    return int(info.partition("total_commands_processed:")[2].split()[0])
