"""What is noted of changes, and what pages show and never ask."""

import asyncio
import html
import re

import pytest

from holdfast.web.pages import operating
from holdfast.web.routes import ROUTES
from tests.harness import RawClient, wait_until
from tests.web.conftest import PASSWORD, Place, add_users, play
from tests.web.test_access import FORMS

HOSTILE = "<script>alert(1)</script>"
TILES = ("Operations/s", "Latency p50", "Memory", "Keys", "Clients", "Hit rate", "Errors/s")
OWN_TILES = ("Fold backlog", "Disk")  # of a Holdfast


def test_every_action_is_in_the_audit_trail(server_port: int) -> None:
    """Also one that the server refuses: with its user, address and outcome."""
    add_users(server_port)

    async def scenario(place: Place) -> None:
        browser = place.browser("127.0.0.9")
        await browser.sign_in("writer")
        history, now_s = place.dashboard.history, place.dashboard.now_s()
        with RawClient.connect(server_port) as raw:
            for path, fields in FORMS.items():
                raw.command("ZADD", "kept", "1", "m")
                before = len(history.audited(None, 1000))
                (session,) = [
                    s for s in place.dashboard.sessions._by_hash.values() if s.is_signed_in
                ]
                token = session.tokens.issue(path, now_s)
                await browser.post(path, {"token": token, **fields})
                found = history.audited(None, 1000)
                if len(found) == before:  # what it would change is not there
                    assert path in ("/semaphores/release", "/replication/digests"), path
                    continue
                assert (found[0].user, found[0].address) == ("writer", "127.0.0.9"), path
                assert found[0].outcome == "done" or found[0].outcome.startswith("failed"), path
        await browser.get("/audit")
        for each in history.audited(None, 1000):
            assert html.escape(each.action) in browser.page

    play(server_port, scenario)


def test_the_overview_shows_how_the_server_is(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        hub = place.dashboard.hub
        await asyncio.to_thread(wait_until, lambda: hub.latest.number > 0, "a first look")
        with RawClient.connect(server_port) as raw:
            raw.command("SET", "a", "1")
            await place.dashboard.poller.poll()
            for words in (("GET", "a"), ("GET", "b"), ("NONSENSE",), ("LPUSH", "a", "x")):
                raw.command(*words)
            await place.dashboard.poller.poll()
            page = (await place.browser().get("/")).text
            is_own = b"holdfast_version" in raw.command("INFO", "server")
        shown = dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]*)</dd>", page))
        for name in (*TILES, *(OWN_TILES if is_own else ())):
            assert re.search(r"\d", shown[name]), (name, shown)
        assert (shown["Keys"], shown["Hit rate"]) == ("1", "50 %")
        assert "<td>WRONGTYPE</td>" in page
        assert "<td>lpush</td>" in page

    play(server_port, scenario)


def test_the_users_of_the_server_are_shown_without_their_passwords(server_port: int) -> None:
    add_users(server_port)

    async def scenario(place: Place) -> None:
        with RawClient.connect(server_port) as raw:
            listed = raw.command("ACL", "LIST")
        page = (await place.browser().get("/users")).text
        hashes = re.findall(rb"#([0-9a-f]{64})", listed)
        assert len(hashes) == 3
        for secret in (PASSWORD, *(each.decode() for each in hashes)):
            assert secret not in page
        assert "<strong>reader</strong>" in page
        assert "+slowlog|get" in page
        assert "needs none" in page  # the default user

    play(server_port, scenario)


def test_of_very_many_users_some_are_shown(
    server_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating, "MOST_USERS", 3)
    add_users(server_port)

    async def scenario(place: Place) -> None:
        page = (await place.browser().get("/users")).text
        assert "4 users, the first 3 shown" in page
        assert re.findall("<strong>(.+?)</strong>", page)[:3] == ["default", "nobody", "reader"]

    play(server_port, scenario)


def test_names_that_clients_users_and_errors_have_stay_text(server_port: int) -> None:
    with RawClient.connect(server_port) as raw, RawClient.connect(server_port) as other:
        # The page shows the most frequent errors, and other tests have used this server.
        raw.command("CONFIG", "RESETSTAT")
        raw.command("CONFIG", "SET", "slowlog-log-slower-than", "0")
        raw.command("CLIENT", "SETNAME", HOSTILE)
        raw.command("ACL", "SETUSER", HOSTILE, "on", "nopass", f"~{HOSTILE}", "+@all", "-get")
        raw.command("EVAL", "return redis.error_reply(ARGV[1] .. ' x')", "0", HOSTILE)
        other.command("AUTH", HOSTILE, "x")
        other.command("GET", HOSTILE)
        raw.command("CONFIG", "SET", "slowlog-log-slower-than", "10000")

        async def scenario(place: Place) -> None:
            browser = place.browser()
            await place.dashboard.poller.poll()
            for path in ("/", "/clients", "/users", "/slow-log"):
                page = (await browser.get(path)).text
                assert HOSTILE not in page, path
                assert html.escape(HOSTILE) in page, path

        try:
            play(server_port, scenario)
        finally:
            raw.command("ACL", "DELUSER", HOSTILE)


@pytest.mark.parametrize(
    "path",
    [
        *("/queues", "/builds", "/semaphores", "/keys", "/keys/big", "/console"),
        *("/replication", "/slow-log", "/audit"),
    ],
)
def test_an_empty_page_says_what_to_do(server_port: int, path: str) -> None:
    async def scenario(place: Place) -> None:
        with RawClient.connect(server_port) as raw:
            raw.command("SLOWLOG", "RESET")
        page = (await place.browser().get(path)).text
        found = re.search(r'<div class="empty"><strong>([^<]+)</strong><p>([^<]{20,})</p>', page)
        assert found is not None

    play(server_port, scenario)


def test_no_page_asks_for_all_keys_at_once(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        with RawClient.connect(server_port) as raw:
            raw.command("CONFIG", "RESETSTAT")
            for route in ROUTES:
                if not route.is_action and route.path != "/events":
                    await browser.get(route.path)
            asked = raw.command("INFO", "commandstats")
        assert b"cmdstat_scan:" in asked
        assert b"cmdstat_keys:" not in asked

    play(server_port, scenario)
