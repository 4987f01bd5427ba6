"""The pages of builds, semaphores and replication, and their actions, on each server."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast import Build, BuildQueue, Semaphore, Worker
from holdfast.builds import Run, State
from holdfast.client import Client
from tests.harness import wait_until
from tests.replication.crew import are_linked, ask, await_the_same, cluster
from tests.web.conftest import Browser, Place, add_users, play

HOSTILE = "<script>alert(1)</script>"


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[Client]:
    async with holdfast.connect(f"redis://127.0.0.1:{port}") as client:
        yield client


async def page(browser: Browser, path: str, status: int = 200) -> str:
    answer = await browser.get(path)
    assert answer.status_code == status, answer.text[:2000]
    assert HOSTILE not in answer.text
    return answer.text


async def some_builds(client: Client, name: str = "ci") -> BuildQueue:
    queue = BuildQueue(client, name)
    await queue.enqueue(Build(1, "compile", annotations={"branch": HOSTILE}))
    await queue.start(1, worker=HOSTILE)
    await queue.enqueue(Build(2, "test", blocked_by=["compile"]))
    await queue.enqueue(Build(3, HOSTILE, delay_s=3600))
    await queue.enqueue(Build(4, "old"))
    await queue.start(4, worker="bob")
    await queue.complete(4, False, reason=f"exit 1 {HOSTILE}")
    return queue


# -- builds -------------------------------------------------------------------------------------


def test_builds_are_shown_by_state_with_the_reason_why_they_wait(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        assert "No build queue" in await page(browser, "/builds")
        async with client_of(server_port) as client:
            await some_builds(client)
            text = await page(browser, "/builds?queue=ci")
            assert "build 1 of compile" in text
            assert "Its delay has not ended" in text
            assert "<svg" in await page(browser, "/builds/graph?queue=ci")
            text = await page(browser, "/builds/show?queue=ci&build=1")
            assert "BuildStarted" in text
            assert "&lt;script&gt;" in text
            await page(browser, "/builds/show?queue=ci&build=99", 404)

    play(server_port, scenario)


def test_times_of_builds_are_of_the_clock_of_the_server(server_port: int) -> None:
    """That of the dashboard may be wrong: here it is of 1970."""

    async def scenario(place: Place) -> None:
        async with client_of(server_port) as client:
            queue = await some_builds(client)
            await queue.freeze("compile", 28_800)
            browser = place.browser()
            words = re.sub(r"<[^>]+>", "", await page(browser, "/builds?queue=ci"))
            assert "compile is frozen for 8 h more" in words
            delayed = "Its delay has not ended, for 60 min more"
            assert delayed in words
            assert delayed in await page(browser, "/builds/show?queue=ci&build=3")

    play(server_port, scenario, now_s=lambda: 1000.0)


def test_the_slider_shows_the_builds_as_they_were(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        async with client_of(server_port) as client:
            await some_builds(client)
            browser = place.browser()
            now = await page(browser, "/builds/replay?queue=ci")
            assert "build=4" in now
            first = await page(browser, "/builds/replay?queue=ci&n=0")
            assert "build=1" in first
            assert "build=4" not in first
            assert 'value="0"' in first
            await page(browser, "/builds/replay?queue=ci&n=99999999")
            assert "Nothing has happened" in await page(browser, "/builds/replay?queue=empty")

    play(server_port, scenario)


def test_finished_builds_are_found_by_words(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        async with client_of(server_port) as client:
            await some_builds(client)
            browser = place.browser()
            assert "build=4" in await page(browser, "/builds/search?queue=ci&text=exit+bob")
            assert "build=4" not in await page(browser, "/builds/search?queue=ci&text=nothing")
            found = await page(browser, "/builds/search?queue=ci&state=FAILURE&text=exi")
            assert "build=4" in found
            await page(browser, "/builds/search?queue=ci&text=%22%27%00%ff*&before=7")

    play(server_port, scenario)


def test_a_build_is_aborted_and_retried_and_that_is_in_the_audit_trail(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        async with client_of(server_port) as client:
            queue = await some_builds(client)
            browser = place.browser()
            await page(browser, "/builds/show?queue=ci&build=1")
            answer = await browser.submit("/builds/abort", queue="ci", build="1")
            assert answer.status_code == 303
            record = await queue.get(1)
            assert record is not None
            assert record.state is State.ABORTED
            assert "was aborted" in await page(browser, answer.headers["location"])
            await browser.submit("/builds/retry", queue="ci", build="1")
            assert (await queue.stats()).newest_id == 5
            audited = await page(browser, "/audit")
            assert "abort build" in audited
            assert "retry build" in audited

    play(server_port, scenario)


def test_a_build_that_is_started_now_is_run_by_a_worker(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        async with client_of(server_port) as client:
            queue = BuildQueue(client, "ci")
            await queue.enqueue(Build(1, "nightly", delay_s=3600))
            ran = asyncio.Event()

            async def handler(run: Run) -> None:
                ran.set()

            async with Worker(queue, handler):
                browser = place.browser()
                await page(browser, "/builds/show?queue=ci&build=1")
                answer = await browser.submit("/builds/start", queue="ci", build="1")
                assert "is on offer" in await page(browser, answer.headers["location"])
                await ran.wait()

    play(server_port, scenario)


def test_a_job_is_frozen_and_thawed(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        async with client_of(server_port) as client:
            queue = BuildQueue(client, "ci")
            await queue.enqueue(Build(1, HOSTILE))
            browser = place.browser()
            await page(browser, "/builds/show?queue=ci&build=1")
            fields = {"queue": "ci", "job": HOSTILE, "for": "until thawed"}
            answer = await browser.submit("/builds/freeze", **fields)
            text = await page(browser, answer.headers["location"])
            assert "is frozen until it is thawed" in text
            assert "Its job is frozen by hand" in text
            assert (await queue.claim("w", 30)).action == "NONE"
            await browser.submit("/builds/thaw", queue="ci", job=HOSTILE)
            assert "is thawed" in await page(browser, "/builds?queue=ci")
            assert (await queue.claim("w", 30)).build_id == 1
            audited = await page(browser, "/audit")
            assert "freeze job" in audited
            assert "thaw job" in audited
            await page(browser, "/builds/show?queue=ci&build=1")
            bad = await browser.submit("/builds/freeze", **fields | {"for": "ever"})
            assert bad.status_code == 422
            assert "How long?" in bad.text
            await page(browser, "/builds/show?queue=ci&build=1")
            assert (await browser.submit("/builds/freeze", queue="ci")).status_code == 422

    play(server_port, scenario)


@pytest.mark.parametrize(
    "path",
    [
        "/builds?queue=a{b",
        "/builds/show?queue=ci&build=x",
        "/builds/show?queue=ci&build=-1",
        "/builds/graph",
        "/semaphores/show",
        "/semaphores/show?name=%7Dx",
    ],
)
def test_an_address_that_names_nothing_is_answered_with_a_sentence(port: int, path: str) -> None:
    async def scenario(place: Place) -> None:
        text = await page(place.browser(), path, 422)
        assert "Which" in text

    play(port, scenario)


@pytest.mark.parametrize("path", ["/show?queue=q&build=1", "?queue=q", "/replay?queue=q"])
def test_a_build_that_no_queue_has_written_is_named_in_a_sentence(
    server_port: int, path: str
) -> None:
    async def scenario(place: Place) -> None:
        async with client_of(server_port) as client:
            await BuildQueue(client, "q").enqueue(Build(1, "a"))
            await client.delete("{q}:build:1")
            await client.hset("{q}:build:1", {"state": "READY", "job": HOSTILE})
            assert "record of a build is damaged" in await page(
                place.browser(), f"/builds{path}", 422
            )

    play(server_port, scenario)


# -- semaphores ---------------------------------------------------------------------------------


def test_a_slot_is_taken_by_force_and_the_next_waiter_gets_it(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        assert "No semaphore" in await page(browser, "/semaphores")
        async with client_of(server_port) as client:
            semaphore = Semaphore(client, HOSTILE, 1)
            held = await semaphore.acquire()
            waiting = asyncio.create_task(semaphore.acquire())
            while (await semaphore.stats())[0].waiting < 1:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.005)
            place.dashboard.now_s = lambda: 2e9  # answers of before are too old
            name = "%3Cscript%3Ealert(1)%3C%2Fscript%3E"
            text = await page(browser, f"/semaphores/show?namespace=adv-sem&name={name}")
            assert held.id in text
            fields = {"namespace": "adv-sem", "name": HOSTILE, "tag": "yes", "id": held.id}
            answer = await browser.submit("/semaphores/release", **fields)
            assert answer.status_code == 303
            granted = await waiting
            text = await page(browser, answer.headers["location"])
            assert "taken from its holder" in text
            assert granted.id in text
            assert "release slot by force" in await page(browser, "/audit")
            await semaphore.release(granted)
            await semaphore.close()

    play(server_port, scenario)


# -- replication --------------------------------------------------------------------------------


def test_a_server_alone_says_how_it_would_be_followed(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        text = await page(place.browser(), "/replication")
        assert "This server is alone" in text

    play(server_port, scenario)


def test_links_of_active_active_servers_are_cut_and_resumed(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as servers:
        wait_until(lambda: are_linked(servers), "they are linked")

        async def scenario(place: Place) -> None:
            browser = place.browser()
            assert "following" in await page(browser, "/replication")
            assert 'class="edge now"' in browser.page  # the link, as a drawing
            await browser.submit("/replication/pause", node="2")
            assert "is cut until" in await page(browser, "/replication")
            assert 'class="edge cut"' in browser.page
            await browser.submit("/replication/resume", node="2")
            assert "is resumed" in await page(browser, "/replication")
            for node in ("x", "0", "256", "9" * 5000):
                bad = await browser.submit("/replication/forget", node=node)
                assert bad.status_code == 422
                await page(browser, "/replication")
            await browser.submit("/replication/forget", node="2")
            assert "is forgotten" in await page(browser, "/replication")

        play(servers[0].port, scenario)


def test_digests_of_all_servers_stand_side_by_side(tmp_path: Path) -> None:
    with cluster(tmp_path, 3) as servers:
        ask(servers[0], "SET", "a", "1")
        await_the_same(servers)

        async def scenario(place: Place) -> None:
            browser = place.browser()
            await page(browser, "/replication")
            text = (await browser.submit("/replication/digests")).text
            assert "All servers have the same data" in text
            assert len(set(re.findall(r'<td class="mono">([0-9a-f]{16,})</td>', text))) == 1
            servers[2].kill()
            await page(browser, "/replication")
            text = (await browser.submit("/replication/digests")).text
            assert "Not every server has told its digest" in text
            assert "compare digests" in await page(browser, "/audit")

        play(servers[0].port, scenario)


def test_conflicts_are_counted_by_the_rule_that_resolved_them(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as servers:
        ask(servers[0], "SADD", "set", "member")
        await_the_same(servers)
        for server in servers:
            ask(server, "ACTIVE", "PAUSE")
        ask(servers[0], "SET", "string", "one")
        ask(servers[1], "SET", "string", "two")
        ask(servers[0], "SADD", "set", "member")
        ask(servers[1], "SREM", "set", "member")
        ask(servers[0], "RPUSH", "key", "a list")
        ask(servers[1], "SADD", "key", "a set")
        for server in servers:
            ask(server, "ACTIVE", "RESUME")
        await_the_same(servers)

        async def scenario(place: Place) -> None:
            text = await page(place.browser(), "/replication")
            assert "Conflicts resolved by rule" in text
            assert "The later write is shown" in text
            assert "The type of the lower node is shown" in text

        play(servers[0].port, scenario)
        told = ask(servers[0], "INFO", "replication")
        assert b"active_active_conflicts:writes=1,removals=0,types=1" in told


# -- permissions --------------------------------------------------------------------------------


def test_a_user_who_may_only_read_is_offered_no_action(server_port: int) -> None:
    add_users(server_port)

    async def scenario(place: Place) -> None:
        async with client_of(server_port) as client:
            semaphore = Semaphore(client, "door", 1)
            held = await semaphore.acquire()
            browser = place.browser()
            await browser.sign_in("reader")
            text = await page(browser, "/semaphores/show?namespace=adv-sem&name=door")
            assert held.id in text
            assert "/semaphores/release" not in text
            answer = await browser.get("/builds")
            assert answer.status_code == 403  # its scripts are not permitted
            await semaphore.release(held)
            await semaphore.close()

    play(server_port, scenario)
