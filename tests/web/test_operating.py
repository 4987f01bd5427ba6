"""Slow log, clients, users, configuration, live events, and a server that goes away."""

import asyncio
import html
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from holdfast.figures.view import View
from holdfast.web.history.rollup import RANGES
from holdfast.web.settings import Settings
from tests.harness import HoldfastServer, RawClient
from tests.harness.processes import steady_port, wait_until
from tests.web.conftest import Place, play


def test_a_client_is_closed_and_the_audit_trail_says_so(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        with RawClient.connect(server_port) as raw:
            number = raw.command("CLIENT", "ID")[1:-2].decode()
            assert f">{number}<" in (await browser.get("/clients")).text
            answer = await browser.submit("/clients/kill", id=number)
            assert answer.status_code == 303
            assert "was closed" in (await browser.get("/clients")).text
        assert "CLIENT KILL" in (await browser.get("/audit")).text
        await browser.get("/clients")
        assert (await browser.submit("/clients/kill", id="x")).status_code == 422

    play(server_port, scenario)


def test_the_configuration_shows_what_differs(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        page = (
            await browser.get("/configuration?pattern=slowlog-max-len&edit=slowlog-max-len")
        ).text
        assert "128" in page
        field = {"name": "slowlog-max-len", "value": "77"}
        assert (await browser.submit("/configuration/set", **field)).status_code == 303
        changed = (await browser.get("/configuration")).text
        assert "slowlog-max-len" in changed
        assert "<strong>77</strong>" in changed
        with RawClient.connect(server_port) as raw:
            raw.command("CONFIG", "SET", "slowlog-max-len", "128")
        assert "<strong>77</strong>" not in (await browser.get("/configuration")).text

    play(server_port, scenario)


def test_the_slow_log_is_shown_and_emptied(server_port: int) -> None:
    with RawClient.connect(server_port) as raw:
        raw.command("CONFIG", "SET", "slowlog-log-slower-than", "0")
        raw.command("SET", "<b>slow", "x")
        raw.command("CONFIG", "SET", "slowlog-log-slower-than", "10000")

    async def scenario(place: Place) -> None:
        browser = place.browser()
        assert "&lt;b&gt;slow" in (await browser.get("/slow-log")).text
        await browser.submit("/slow-log/reset")
        assert "<b>slow" not in html.unescape((await browser.get("/slow-log")).text)

    play(server_port, scenario)
    with RawClient.connect(server_port) as raw:
        assert raw.command("SLOWLOG", "LEN") == b":0\r\n"


def test_one_poll_serves_all_pages(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        dashboard = place.dashboard
        asked: list[int] = []
        look = dashboard.poller._watch.look

        async def counted() -> View:
            asked.append(1)
            return await look()

        dashboard.poller._watch.look = counted  # type: ignore[method-assign]
        pages = [dashboard.hub.follow("figures") for _ in range(1000)]
        first = await asyncio.gather(*(anext(page) for page in pages))
        assert len(set(first)) == 1
        before = len(asked)
        await dashboard.poller.poll()
        news = await asyncio.gather(*(anext(page) for page in pages))
        assert len(asked) - before <= 2
        assert len(set(news)) == 1
        assert b"event: figures" in news[0]
        assert dashboard.hub.pages == 1000
        for page in pages:
            await page.aclose()  # type: ignore[attr-defined]
        assert dashboard.hub.pages == 0

    play(server_port, scenario)


def test_a_server_that_was_killed_is_said_and_comes_back(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server("--port", str(steady_port()))

    async def scenario(place: Place) -> None:
        browser = place.browser()
        assert (await browser.get("/keys")).status_code == 200
        server.kill()
        answer = await browser.get("/keys")
        assert answer.status_code == 503
        assert "does not answer" in answer.text
        for _ in range(200):
            await place.dashboard.poller.poll()
            if "refused" in str(place.dashboard.poller.view.trouble):
                break
            await asyncio.sleep(0.01)
        assert str(place.dashboard.poller.view.trouble) == "not connected: Connection refused"
        news = place.dashboard.hub.latest.events["status"].decode()
        assert json.loads(news.partition("data: ")[2])["up"] is False
        assert (await browser.get("/")).status_code == 200  # with what is known
        server.start()
        for _ in range(200):
            answer = await browser.get("/keys")
            if answer.status_code == 200:
                break
            await asyncio.sleep(0.1)
        assert answer.status_code == 200
        for _ in range(200):
            await place.dashboard.poller.poll()
            if place.dashboard.poller.view.trouble is None:
                break
            await asyncio.sleep(0.1)
        assert place.dashboard.poller.failed_since_s is None

    play(server.port, scenario)


def test_a_dashboard_that_starts_before_its_server_shows_it_when_it_is_there(
    start_server: Callable[..., HoldfastServer],
) -> None:
    port = steady_port()

    async def scenario(place: Place) -> None:
        poller, hub = place.dashboard.poller, place.dashboard.hub
        await asyncio.to_thread(wait_until, lambda: hub.latest.number > 1, "two attempts")
        assert "cannot connect" in str(poller.view.trouble)
        assert (await place.browser().get("/")).status_code == 503
        start_server("--port", str(port))
        await asyncio.to_thread(wait_until, lambda: poller.view.trouble is None, "figures")
        assert poller.failed_since_s is None
        assert "Operations/s" in (await place.browser().get("/")).text

    play(port, scenario)


def test_pages_are_answered_while_a_change_waits_for_the_audit_trail(
    port: int, history: Path
) -> None:
    """Another process has the file: a change must be noted before it is made."""

    async def scenario(place: Place) -> None:
        browser = place.browser()
        with RawClient.connect(port) as raw:
            raw.command("SET", "k", "v")
        await browser.get("/keys/show?name=k")
        lock = place.dashboard.history._lock
        with closing(apsw.Connection(str(history))) as other:
            other.execute("begin immediate")
            change = asyncio.create_task(browser.submit("/keys/delete", name="k"))

            def waits() -> bool:
                if is_free := lock.acquire(blocking=False):
                    lock.release()
                return not is_free

            await asyncio.to_thread(wait_until, waits, "it waits for the file")
            assert (await place.browser().get("/")).status_code == 200
            assert (await place.browser().get("/audit")).status_code == 200
            assert not change.done()
            other.execute("rollback")
        assert (await change).status_code == 303
        assert "delete key" in (await browser.get("/audit")).text

    play(port, scenario, Settings("", history=history))


def test_charts_are_drawn_from_the_history(port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        for name in RANGES:
            assert (await browser.get(f"/?range={name}")).status_code == 200
        assert (await browser.get("/?range=nonsense")).status_code == 200

    play(port, scenario)
