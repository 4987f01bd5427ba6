"""What pages ask of a server: little of a busy one, and for many tabs no more than for one."""

import asyncio
import html
import re
from dataclasses import replace

import pytest

import holdfast
from holdfast import Build, BuildQueue, Semaphore
from holdfast.web.live.poller import ALONE_S, BUSY_S, WATCHED_S
from holdfast.web.live.recent import MOST_NAMES, Recent
from holdfast.web.readers.pace import BUSY_SHARE, LEAST_CALLS, MOST_CALLS, Pace, pace_for
from holdfast.web.visit import REFRESH
from tests.harness import RawClient, wait_until
from tests.web.conftest import Place, play

KEYS = 10_000  # SCAN looks at 500 of them in a call
TABS = 30


def info(raw: RawClient, section: str) -> dict[str, str]:
    text = raw.command("INFO", section).decode()
    return dict(line.partition(":")[::2] for line in text.split("\r\n"))


def scans(raw: RawClient) -> int:
    found = info(raw, "commandstats").get("cmdstat_scan", "calls=0,")
    return int(found.partition("calls=")[2].partition(",")[0])


async def first_look(place: Place) -> None:
    """Until the poller has asked; the next time is ten seconds later."""
    hub = place.dashboard.hub
    await asyncio.to_thread(wait_until, lambda: hub.latest.number > 0, "a first look")


@pytest.mark.parametrize(
    ("cpu_share", "least", "most"), [(1.0, 1, LEAST_CALLS), (0.0, 10, MOST_CALLS)]
)
@pytest.mark.parametrize("path", ["/queues", "/semaphores", "/builds"])
def test_a_busy_server_is_searched_slowly_and_an_idle_one_quickly(
    server_port: int, path: str, cpu_share: float, least: int, most: int
) -> None:
    async def scenario(place: Place) -> None:
        await first_look(place)
        poller = place.dashboard.poller
        poller.view = replace(poller.view, cpu_share=cpu_share)
        with RawClient.connect(server_port) as raw:
            make = "for n = 1, ARGV[1] do redis.call('SET', 'key:' .. n, n) end"
            raw.command("EVAL", make, "0", str(KEYS))
            before = scans(raw)
            assert (await place.browser().get(path)).status_code == 200
            assert least <= scans(raw) - before <= most

    play(server_port, scenario)


def test_the_pace_follows_the_share_of_a_core_that_the_server_uses() -> None:
    assert pace_for(0.0) == Pace(MOST_CALLS, 100)
    assert pace_for(BUSY_SHARE / 2) == Pace(MOST_CALLS // 2, 50)
    assert pace_for(BUSY_SHARE) == pace_for(7.0) == Pace(LEAST_CALLS, 25)
    assert LEAST_CALLS < pace_for(None).calls < MOST_CALLS


def test_a_busy_server_is_asked_for_its_figures_less_often(port: int) -> None:
    async def scenario(place: Place) -> None:
        await first_look(place)
        poller, hub = place.dashboard.poller, place.dashboard.hub
        assert poller.pause_s == ALONE_S
        hub.pages += 1
        for share, pause_s in ((None, WATCHED_S), (0.1, WATCHED_S), (BUSY_SHARE, BUSY_S)):
            poller.view = replace(poller.view, cpu_share=share)
            assert poller.pause_s == pause_s

    play(port, scenario)


def test_a_server_whose_figures_are_old_counts_as_busy(port: int) -> None:
    now_s = [1000.0]

    async def scenario(place: Place) -> None:
        await first_look(place)
        poller = place.dashboard.poller
        poller.view = replace(poller.view, cpu_share=0.0)
        assert poller.cpu_share == 0.0
        now_s[0] += 2 * ALONE_S
        assert poller.cpu_share == 1.0

    play(port, scenario, now_s=lambda: now_s[0])


def test_what_is_known_is_searched_for_with_less() -> None:
    pace = pace_for(0.0)
    assert pace.calls_in(rounds=1) < pace.calls_in(rounds=0)
    assert pace_for(1.0).calls_in(rounds=9) == LEAST_CALLS


@pytest.mark.parametrize(
    "path",
    [
        *("/queues", "/queues/show?library=plain+list&name=jobs", "/builds?queue=ci"),
        *("/builds/graph?queue=ci", "/semaphores", "/semaphores/show?namespace=adv-sem&name=gpu"),
        *("/replication", "/clients", "/slow-log", "/keys/hot"),
    ],
)
def test_many_tabs_cost_a_server_as_much_as_one(port: int, path: str) -> None:
    """All pages that load a part of themselves again and again."""

    async def cost(place: Place, tabs: int) -> int:
        async with holdfast.connect(f"redis://127.0.0.1:{port}") as client:
            await client.exec("RPUSH", "jobs", "one", "two", into=None)
            await BuildQueue(client, "ci").enqueue(Build(1, "compile"))
            browser = place.browser()
            async with Semaphore(client, "gpu", 1):
                await first_look(place)
                await browser.get("/sign-in")  # opens the login of visitors
                with RawClient.connect(port) as raw:
                    before = int(info(raw, "stats")["total_commands_processed"])
                    loads = [browser.http.get(path, headers={REFRESH: "1"}) for _ in range(tabs)]
                    answers = await asyncio.gather(*loads)
                    assert {each.status_code for each in answers} == {200}
                    return int(info(raw, "stats")["total_commands_processed"]) - before

    costs = []
    for tabs in (1, TABS):

        async def scenario(place: Place, tabs: int = tabs) -> None:
            costs.append(await cost(place, tabs))

        play(port, scenario)
    assert costs[1] <= 5 * costs[0]


def test_answers_are_not_kept_for_ever() -> None:
    """Their names come from addresses of pages."""

    async def main() -> None:
        recent = Recent(monotonic_s=lambda: 0.0)

        async def look() -> int:
            return 1

        for n in range(3 * MOST_NAMES):
            assert await recent.get(n, 1.0, look) == 1
        assert len(recent) <= MOST_NAMES

    asyncio.run(main())


def test_a_page_that_is_opened_shows_a_change_that_another_client_has_made(port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        async with holdfast.connect(f"redis://127.0.0.1:{port}") as client:
            queue = BuildQueue(client, "ci")
            await queue.enqueue(Build(1, "compile"))
            for freezes in (True, False):
                await (queue.freeze("compile") if freezes else queue.thaw("compile"))
                page = (await browser.get("/builds?queue=ci")).text
                words = " ".join(re.sub(r"<[^>]+>", " ", html.unescape(page)).split())
                assert ("compile is frozen until it is thawed" in words) == freezes, words

    play(port, scenario)


def test_an_answer_is_shared_only_while_it_is_fresh() -> None:
    now_s, sent = [0.0], []

    async def look() -> float:
        sent.append(now_s[0])
        return now_s[0]

    async def main() -> None:
        recent = Recent(monotonic_s=lambda: now_s[0])
        assert await recent.get("a", 1.0, look) == 0.0
        now_s[0] = 1.0
        assert await recent.get("a", 1.0, look) == 0.0
        assert await recent.get("a", 0.0, look) == 1.0
        now_s[0] = 2.5
        assert await recent.get("a", 1.0, look) == 2.5

    asyncio.run(main())
    assert sent == [0.0, 1.0, 2.5]
