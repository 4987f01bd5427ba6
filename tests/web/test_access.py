"""Which requests are answered: every route for every user; forged and replayed requests."""

import asyncio
import re

import httpx
import pytest

from holdfast.web.routes import ROUTES
from holdfast.web.security.headers import HEADERS
from holdfast.web.security.login import PERMISSIONS_S
from holdfast.web.security.permissions import PROBES
from holdfast.web.settings import Settings
from tests.harness import HoldfastServer, RawClient
from tests.web.conftest import PASSWORD, Browser, Place, add_users, play


def test_the_default_user_without_a_password_needs_no_sign_in(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        answer = await place.browser().get("/")
        assert answer.status_code == 200
        assert "Overview" in answer.text

    play(server_port, scenario)


@pytest.fixture
def closed_port(start_server: object) -> int:
    """A server whose default user has a password."""
    server: HoldfastServer = start_server("--requirepass", PASSWORD)  # type: ignore[operator]
    client = server.client()
    assert client.command("AUTH", PASSWORD) == b"+OK\r\n"
    everywhere = ("on", f">{PASSWORD}", "~*", "&*")
    client.command("ACL", "SETUSER", "reader", *everywhere, "+@read", "+info", "+ping")
    return server.port


def test_every_page_of_a_server_with_a_password_asks_to_sign_in(closed_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        for route in ROUTES:
            if route.is_open or "{" in route.path:
                continue
            if route.is_action:
                await browser.get("/sign-in")
                answer = await browser.post(route.path, {})
                assert answer.status_code in (401, 403), route.path
            else:
                answer = await browser.get(route.path)
                wanted = (401,) if route.path == "/events" else (303,)
                assert answer.status_code in wanted, route.path
                assert "Overview</a>" not in answer.text

    play(closed_port, scenario)


def test_a_user_of_the_server_signs_in_and_out(closed_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        wrong = await browser.sign_in("default", "wrong")
        assert wrong.status_code == 403
        assert "does not accept" in wrong.text
        done = await browser.sign_in("default")
        assert (done.status_code, done.headers["location"]) == (303, "/")
        assert (await browser.get("/")).status_code == 200
        out = await browser.submit("/sign-out")
        assert out.status_code == 303
        assert (await browser.get("/")).status_code == 303

    play(closed_port, scenario)


def test_without_a_login_in_the_url_a_user_lends_its_own_for_the_figures(closed_port: int) -> None:
    async def scenario(place: Place) -> None:
        poller, browser = place.dashboard.poller, place.browser()

        def has_figures() -> bool:
            return poller.view.trouble is None

        for _ in range(100_000):
            if poller.is_refused:
                break
            await asyncio.sleep(0)
        await poller.poll()
        assert b'"up": true' in place.dashboard.hub.latest.events["status"]  # it does answer
        await browser.sign_in("default")
        assert has_figures()
        assert "Operations/s" in (await browser.get("/")).text
        await browser.submit("/sign-out")
        await browser.get("/sign-in")
        await poller.poll()
        assert not has_figures()
        assert not poller.is_lent
        await browser.sign_in("reader")
        assert has_figures()

    play(closed_port, scenario)


def test_pages_that_ask_no_server_are_closed_to_users_without_the_permission(
    closed_port: int,
) -> None:
    """Also if these users may not run what tells permissions: ACL DRYRUN and MULTI."""
    with RawClient.connect(closed_port) as raw:
        raw.command("AUTH", PASSWORD)
        raw.command("ACL", "SETUSER", "outsider", "on", f">{PASSWORD}", "+ping")

    async def scenario(place: Place) -> None:
        browser = place.browser()
        for user, overview, audit in (
            ("default", 200, 200),
            ("reader", 200, 403),
            ("outsider", 403, 403),
        ):
            assert (await browser.sign_in(user)).status_code == 303
            assert (await browser.get("/")).status_code == overview, user
            assert (await browser.get("/audit")).status_code == audit, user
            await browser.submit("/sign-out")

    play(closed_port, scenario)


def test_a_user_without_transactions_signs_in_and_runs_nothing(closed_port: int) -> None:
    """The commands that its permissions are about would be run if MULTI were refused."""
    with RawClient.connect(closed_port) as raw:
        raw.command("AUTH", PASSWORD)
        rules = ("on", f">{PASSWORD}", "~*", "&*", "+@all", "-@transaction", "-acl")
        raw.command("ACL", "SETUSER", "writer", *rules)
        raw.command("CONFIG", "RESETSTAT")

        async def scenario(place: Place) -> None:
            assert (await place.browser().sign_in("writer")).status_code == 303

        play(closed_port, scenario)
        counted = raw.command("INFO", "commandstats")
        run = set(re.findall(rb"^cmdstat_(\S+):calls=[1-9]", counted, re.MULTILINE))
        assert b"info" in run
        assert run.isdisjoint({b"set", b"del", b"xadd", b"slowlog|reset", b"config|rewrite"})


@pytest.mark.parametrize(
    "change", [["DELUSER", "reader"], ["SETUSER", "reader", "resetpass", ">new"]]
)
def test_a_user_that_the_server_does_not_accept_any_more_is_asked_to_sign_in(
    closed_port: int, change: list[str]
) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.sign_in("reader")
        assert (await browser.get("/keys")).status_code == 200
        with RawClient.connect(closed_port) as raw:
            raw.command("AUTH", PASSWORD)
            raw.command("ACL", *change)
            raw.command("CLIENT", "KILL", "USER", "reader")
        for _ in range(100):  # the connection is lost, and the next one is refused
            answer = await browser.get("/keys")
            if answer.status_code == 303:
                break
        assert answer.headers["location"].startswith("/sign-in?")

    play(closed_port, scenario)


def test_the_cookie_is_for_our_pages_only_and_new_after_signing_in(closed_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        before = (await browser.get("/sign-in")).headers["set-cookie"]
        after = (await browser.sign_in("default")).headers["set-cookie"]
        assert before.partition(";")[0] != after.partition(";")[0]
        for cookie in (before, after):
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            assert "Path=/" in cookie
            assert "Secure" not in cookie

    play(closed_port, scenario)


def test_with_https_the_cookie_is_secure(closed_port: int) -> None:
    async def scenario(place: Place) -> None:
        cookie = (await place.browser().get("/sign-in")).headers["set-cookie"]
        assert cookie.startswith("__Host-")
        assert "Secure" in cookie

    play(closed_port, scenario, Settings("", is_behind_https=True))


def test_a_public_dashboard_lets_nobody_in_when_the_server_has_lost_its_password(
    closed_port: int,
) -> None:
    """Such a server takes any password for the default user."""

    async def scenario(place: Place) -> None:
        assert (await place.browser().sign_in("default")).status_code == 303
        with RawClient.connect(closed_port) as raw:
            raw.command("AUTH", PASSWORD)
            raw.command("CONFIG", "SET", "requirepass", "")
            answer = await place.browser().sign_in("default", "any")
            assert answer.status_code == 403
            assert "has no password" in answer.text
            assert (await place.browser().get("/keys")).status_code == 303
            raw.command("CONFIG", "SET", "requirepass", PASSWORD)
        assert (await place.browser().sign_in("default")).status_code == 303

    play(closed_port, scenario, Settings("", bind=("0.0.0.0",)))


def test_ten_wrong_passwords_and_the_address_waits(closed_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        for _ in range(10):
            assert (await browser.sign_in("default", "wrong")).status_code == 403
        assert (await browser.sign_in("default")).status_code == 429
        other = place.browser("127.0.0.2")
        assert (await other.sign_in("default")).status_code == 303

    play(closed_port, scenario)


def test_passwords_are_on_no_page_and_in_no_error(closed_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        answers = [await browser.sign_in("default", "hunter2"), await browser.sign_in("default")]
        answers.append(await browser.get("/"))
        for answer in answers:
            assert "hunter2" not in answer.text
            assert PASSWORD not in answer.text

    play(closed_port, scenario)


@pytest.mark.parametrize("user", ["reader", "writer", "nobody"])
def test_every_page_for_every_user(server_port: int, user: str) -> None:
    """A page answers, or says what the user may not run. None of them fails."""
    add_users(server_port)

    async def scenario(place: Place) -> None:
        browser = place.browser()
        assert (await browser.sign_in(user)).status_code == 303
        for route in ROUTES:
            if route.is_action or "{" in route.path or route.path == "/events":
                continue
            answer = await browser.get(route.path)
            login = next(iter(place.dashboard.sessions._by_hash.values())).login
            assert login is not None
            allowed = route.is_open or login.permissions.may(*route.needs)
            wanted = (200, 303, 422) if allowed else (403,)
            assert answer.status_code in wanted, (route.path, answer.text)
            if user == "writer":
                assert answer.status_code in (200, 303, 422), (route.path, answer.text)

    play(server_port, scenario)


@pytest.mark.parametrize("name", PROBES)
def test_what_is_asked_about_permissions_is_a_command(port: int, name: str) -> None:
    """Else the answer would always be that the user may run it."""
    with RawClient.connect(port) as raw:
        assert raw.command("ACL", "DRYRUN", "default", *PROBES[name]) == b"+OK\r\n"


def test_every_need_of_a_route_is_asked_about() -> None:
    assert {need for route in ROUTES for need in route.needs} <= set(PROBES)


def test_a_user_without_write_permissions_gets_a_read_only_dashboard(server_port: int) -> None:
    add_users(server_port)

    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.sign_in("reader")
        answer = await browser.get("/")
        assert answer.status_code == 200
        assert "read-only" in answer.text
        await browser.submit("/sign-out")
        await browser.sign_in("writer")
        assert "read-only" not in (await browser.get("/")).text

    play(server_port, scenario)


def test_pages_follow_permissions_that_change_while_they_are_open(server_port: int) -> None:
    add_users(server_port)
    now_s = [1000.0]

    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.sign_in("reader")
        assert "read-only" in (await browser.get("/")).text
        stream = asyncio.create_task(browser.http.get("/events?kind=figures"))
        with RawClient.connect(server_port) as raw:
            for rule, is_read_only in (("+@all", False), ("-@write", True)):
                raw.command("ACL", "SETUSER", "reader", rule, "-eval", "-evalsha")
                now_s[0] += PERMISSIONS_S
                assert ("read-only" in (await browser.get("/keys")).text) is is_read_only, rule
            assert not stream.done()
            raw.command("ACL", "SETUSER", "reader", "-info")
            now_s[0] += PERMISSIONS_S
            assert (await browser.get("/")).status_code == 403
        await place.dashboard.poller.poll()
        assert (await stream).text.endswith("event: signed-out\ndata:\n\n")

    play(server_port, scenario, now_s=lambda: now_s[0])


# A form for each action, which would change something.
FORMS: dict[str, dict[str, str]] = {
    "/builds/abort": {"queue": "ci", "build": "1"},
    "/builds/retry": {"queue": "ci", "build": "1"},
    "/builds/start": {"queue": "ci", "build": "1"},
    "/builds/freeze": {"queue": "ci", "job": "compile", "for": "1 hour"},
    "/builds/thaw": {"queue": "ci", "job": "compile"},
    "/semaphores/release": {"namespace": "adv-sem", "name": "door", "id": "x"},
    "/keys/create": {"name": "new", "value": "x"},
    "/keys/edit": {"name": "kept", "type": "zset", "place": "m", "value": "2"},
    "/keys/add": {"name": "kept", "type": "zset", "score": "1", "value": "x"},
    "/keys/remove": {"name": "kept", "type": "zset", "place": "m"},
    "/keys/delete": {"name": "kept"},
    "/keys/rename": {"name": "kept", "to": "other"},
    "/keys/expire": {"name": "kept", "seconds": "1000"},
    "/keys/hot": {"seconds": "5"},
    "/console": {"line": "DEL kept"},
    "/replication/digests": {},
    "/replication/pause": {"node": "2"},
    "/replication/resume": {"node": "2"},
    "/replication/forget": {"node": "2"},
    "/slow-log/reset": {},
    "/clients/kill": {"id": "0"},
    "/configuration/set": {"name": "slowlog-max-len", "value": "7"},
    "/configuration/rewrite": {},
}


def all_data(raw: RawClient) -> list[bytes]:
    """Every key with its value, and what else an action could change."""
    names = raw.command("KEYS", "*")
    found = [names, raw.command("CONFIG", "GET", "slowlog-max-len")]
    for name in re.findall(rb"\r\n([^$*\r\n][^\r\n]*)", names):
        found += [raw.command("DUMP", name), raw.command("EXPIRETIME", name)]
    return found


@pytest.mark.parametrize("user", ["reader", "nobody"])
def test_a_user_changes_nothing_that_its_permissions_forbid(server_port: int, user: str) -> None:
    """Not even with a form that another user has made, or a token that is valid."""
    add_users(server_port)
    assert set(FORMS) == {r.path for r in ROUTES if r.is_action and not r.is_open}
    with RawClient.connect(server_port) as raw:
        raw.command("ZADD", "kept", "1", "m")
        before = all_data(raw)

        async def scenario(place: Place) -> None:
            browser = place.browser()
            await browser.sign_in(user)
            await browser.get("/sign-in")
            (session,) = [s for s in place.dashboard.sessions._by_hash.values() if s.is_signed_in]
            for path, fields in FORMS.items():
                token = session.tokens.issue(path, place.dashboard.now_s())
                answer = await browser.post(path, {"token": token, **fields})
                if path == "/console":
                    answer = await browser.get("/console")
                    assert "NOPERM" in answer.text
                else:
                    # CLIENT KILL is in the category of connections; nobody has this number.
                    allowed = (303,) if path == "/clients/kill" else ()
                    assert answer.status_code in (403, 422, *allowed), (path, answer.text)
                    assert "Traceback" not in answer.text

        play(server_port, scenario)
        assert all_data(raw) == before


def test_no_action_runs_without_its_token_or_twice(server_port: int) -> None:
    add_users(server_port)
    with RawClient.connect(server_port) as raw:
        raw.command("ZADD", "kept", "1", "m")
        before = all_data(raw)

        async def scenario(place: Place) -> None:
            browser, other = place.browser(), place.browser()
            for each in (browser, other):
                await each.sign_in("writer")
            sessions = [s for s in place.dashboard.sessions._by_hash.values() if s.is_signed_in]
            now_s = place.dashboard.now_s()
            for path, fields in FORMS.items():
                spent = sessions[0].tokens.issue(path, now_s)
                sessions[0].tokens.spend(spent, path, now_s)
                tokens = ("", "x", spent, sessions[1].tokens.issue(path, now_s))
                for token in (*tokens, sessions[0].tokens.issue("/sign-in", now_s)):
                    answer = await browser.post(path, {"token": token, **fields})
                    assert answer.status_code == 403, (path, token)
                    assert "Nothing was changed" in answer.text

        play(server_port, scenario)
        assert all_data(raw) == before


# -- requests that no page of ours has made -------------------------------------------------------


async def refused(browser: Browser, path: str, **options: object) -> httpx.Response:
    token = browser.token(path)
    return await browser.post(path, {"token": token}, **options)


def test_a_form_without_its_token_is_refused(port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.get("/sign-in")
        for token in ("", "x", "1.2.3", browser.token("/sign-in")[:-1]):
            answer = await browser.post("/sign-in", {"token": token, "password": "x"})
            assert answer.status_code == 403
            assert "Nothing was changed" in answer.text

    play(port, scenario)


def test_the_token_of_another_session_or_another_form_is_refused(port: int) -> None:
    async def scenario(place: Place) -> None:
        mine, other = place.browser(), place.browser()
        await mine.get("/sign-in")
        await other.get("/sign-in")
        answer = await mine.post("/sign-in", {"token": other.token("/sign-in"), "password": "x"})
        assert answer.status_code == 403
        answer = await mine.post("/sign-out", {"token": mine.token("/sign-in")})
        assert answer.status_code == 403

    play(port, scenario)


def test_a_form_that_was_sent_already_is_refused(closed_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.get("/sign-in")
        fields = {"token": browser.token("/sign-in"), "username": "", "password": "wrong"}
        assert "does not accept" in (await browser.post("/sign-in", fields)).text
        again = await browser.post("/sign-in", fields)
        assert again.status_code == 403
        assert "sent already" in again.text

    play(closed_port, scenario)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_form_of_another_site_is_refused_even_with_a_token(
    port: int, headers: dict[str, str]
) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.get("/sign-in")
        assert (await refused(browser, "/sign-in", headers=headers)).status_code == 403

    play(port, scenario)


def test_what_is_no_form_is_refused(port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.get("/sign-in")
        headers = {"content-type": "application/json"}
        assert (await refused(browser, "/sign-in", headers=headers)).status_code == 415

    play(port, scenario)


def test_a_form_that_is_too_large_is_refused(port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.get("/sign-in")
        answer = await browser.submit("/sign-in", password="x" * (17 << 20))
        assert answer.status_code == 413

    play(port, scenario)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8380", 200),
        ("127.0.0.1", 200),
        ("[::1]:8380", 200),
        ("LOCALHOST", 200),
        ("evil.example", 421),
        ("evil.example:8380", 421),
        ("localhost.evil.example", 421),
        ("", 421),
    ],
)
def test_only_known_names_are_answered(port: int, host: str, status: int) -> None:
    """Else a page of another site whose name leads here could read ours (DNS rebinding)."""

    async def scenario(place: Place) -> None:
        answer = await place.browser().get("/", headers={"host": host})
        assert answer.status_code == status

    play(port, scenario)


def test_names_can_be_added(port: int) -> None:
    async def scenario(place: Place) -> None:
        answer = await place.browser().get("/", headers={"host": "redis.example:8380"})
        assert answer.status_code == 200

    play(port, scenario, Settings("", hosts=("Redis.Example",)))


def test_every_answer_has_the_headers_that_protect_it(port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        for path in ("/", "/sign-in", "/static/app.js", "/nothing", "/alive"):
            headers = (await browser.get(path)).headers
            for name, value in HEADERS.items():
                assert headers[name] == value, path
        assert "unsafe" not in HEADERS["content-security-policy"]
        assert (await browser.get("/")).headers["cache-control"] == "no-store"

    play(port, scenario)


def test_no_page_has_inline_scripts_or_styles(port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        for route in ROUTES:
            if route.is_action or "{" in route.path or route.path == "/events":
                continue
            text = (await browser.get(route.path)).text
            assert not re.search(r"<script(?![^>]*\bsrc=)", text), route.path
            assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text), route.path
            assert not re.search(r'(?:src|href|action)="(?:[a-z]+:|//)', text), route.path

    play(port, scenario)


@pytest.mark.parametrize("path", ["/nothing", "/keys/nothing", "/%ff%00/..%2f", "/<b>"])
def test_an_address_that_leads_nowhere_is_a_page_that_says_so(port: int, path: str) -> None:
    async def scenario(place: Place) -> None:
        answer = await place.browser().get(path)
        assert answer.status_code == 404
        assert "There is no page at this address" in answer.text
        assert "Overview</a>" in answer.text
        assert "<b>" not in answer.text

    play(port, scenario)


@pytest.mark.parametrize(
    "path", ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "/\n/x"]
)
def test_signing_in_leads_nowhere_else(closed_port: int, path: str) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.get("/sign-in")
        answer = await browser.submit("/sign-in", username="", password=PASSWORD, next=path)
        assert answer.headers["location"] == "/"

    play(closed_port, scenario)


def test_a_dashboard_that_others_reach_has_no_visitors_without_a_password(port: int) -> None:
    async def scenario(place: Place) -> None:
        assert (await place.browser().get("/")).status_code == 303

    play(port, scenario, Settings("", bind=("0.0.0.0",)))
