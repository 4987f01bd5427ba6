"""Keys in a browser: every type, every change, hostile names and bodies stay text."""

import html
import re
from typing import Any
from urllib.parse import quote_from_bytes

import pytest

from holdfast.web.names import in_url
from holdfast.web.security import login
from tests.harness import RawClient
from tests.web.conftest import Browser, Place, add_users, play

HOSTILE = [
    b"<script>alert(1)</script>",
    b'"><img src=x onerror=alert(1)>',
    b"\xff\xfe\x00invalid",
    b"' onmouseover='alert(1)",
    "\u202eevil\u202c".encode(),
    b"{{ 7*7 }}{% raw %}",
    b"line\r\nbreak",
    b"&lt;b&gt;",
    b"",
]


def show(name: bytes) -> str:
    return f"/keys/show?name={quote_from_bytes(name, safe='')}"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_and_values_stay_text(server_port: int, text: bytes) -> None:
    with RawClient.connect(server_port) as raw:
        raw.command("SET", b"string:" + text, text)
        raw.command("RPUSH", b"list:" + text, text, b"x")
        raw.command("HSET", b"hash:" + text, text, text)
        raw.command("SADD", b"set:" + text, text)
        raw.command("ZADD", b"zset:" + text, "1", text)
        raw.command("XADD", b"stream:" + text, "*", text or b"f", text)
        raw.command("SET", text, b"bare")

    async def scenario(place: Place) -> None:
        browser = place.browser()
        names = [kind + text for kind in (b"string:", b"list:", b"hash:", b"set:", b"zset:")]
        pages = ["/keys", "/keys/big", "/queues", *map(show, [*names, b"stream:" + text, text])]
        pages.append(f"/keys?pattern={in_url(text)}")
        for path in pages:
            answer = await browser.get(path)
            assert answer.status_code == 200, (path, answer.text)
            answer.content.decode()  # valid UTF-8
            lowered = answer.text.lower().replace(f"127.0.0.1:{server_port}", "")
            for markup in ("<script>", "<img src=x", "onmouseover='alert", "\u202e", "\x00", ":49"):
                assert markup not in lowered, (path, markup)

    play(server_port, scenario)


def get(port: int, *words: Any) -> bytes:
    with RawClient.connect(port) as raw:
        return raw.command(*words)


async def edited(browser: Browser, name: bytes, query: str = "", **fields: Any) -> int:
    """Open the page of the key, change the value and send the form as the browser would."""
    await browser.get(show(name) + query)
    hidden = {"name": in_url(name), "type": fields.pop("type")}
    form = browser.page.partition('action="/keys/edit"')[2]
    for field in ("was", "place", "escaped"):
        found = form.partition("</form>")[0].partition(f'name="{field}" value="')[2]
        if found:
            hidden[field] = html.unescape(found.partition('"')[0])
    answer = await browser.submit("/keys/edit", **hidden, **fields)
    return answer.status_code


def test_values_of_every_type_are_changed(server_port: int) -> None:
    with RawClient.connect(server_port) as raw:
        raw.command("SET", "s", "old", "EX", "1000")
        raw.command("RPUSH", "l", "a", "b", "c")
        raw.command("HSET", "h", "f", "old")
        raw.command("ZADD", "z", "1", "m")
        raw.command("SET", b"bin\xff", b"\x00\xff")

    async def scenario(place: Place) -> None:
        browser = place.browser()
        assert await edited(browser, b"s", type="string", value="new\r\nline") == 303
        assert await edited(browser, b"l", "&edit=1", type="list", value="B") == 303
        assert await edited(browser, b"h", "&edit=f", type="hash", value="new") == 303
        assert await edited(browser, b"z", "&edit=m", type="zset", value="2.5") == 303
        assert await edited(browser, b"bin\xff", type="string", value="\\x00\\xfe\\n") == 303

    play(server_port, scenario)
    assert get(server_port, "GET", "s") == b"$8\r\nnew\nline\r\n"
    assert int(get(server_port, "TTL", "s")[1:]) > 900
    assert get(server_port, "LINDEX", "l", "1") == b"$1\r\nB\r\n"
    assert get(server_port, "HGET", "h", "f") == b"$3\r\nnew\r\n"
    assert get(server_port, "ZSCORE", "z", "m") == b"$3\r\n2.5\r\n"
    assert get(server_port, "GET", b"bin\xff") == b"$3\r\n\x00\xfe\n\r\n"


def test_nothing_is_escaped_twice(server_port: int) -> None:
    r"""Neither in sentences, nor in a field that is sent again as it stands."""
    name = b"back\\slash\n"

    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.get("/keys")
        await browser.submit("/keys/create", name=r"back\\slash\n", value="a b", escaped="yes")
        page = await browser.get(show(name))
        assert r"back\\slash\n</h1>" in page.text
        gone = await browser.submit("/keys/delete", name=in_url(name), type="string")
        assert r"back\\slash\n was deleted" in (await browser.get(gone.headers["location"])).text
        trail = html.unescape((await browser.get("/audit")).text)
        assert r'SET "back\\slash\n" "a b" NX' in trail
        for path in ("/keys", "/queues"):
            assert r'value="a\*b"' in (await browser.get(path + r"?pattern=a\*b")).text

    play(server_port, scenario)


def test_a_value_that_has_changed_since_is_not_overwritten(server_port: int) -> None:
    get(server_port, "SET", "s", "seen")

    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.get(show(b"s"))
        was = browser.page.partition('name="was" value="')[2].partition('"')[0]
        token = browser.token("/keys/edit")
        get(server_port, "SET", "s", "changed")
        fields = {"token": token, "name": "s", "type": "string", "was": was, "value": "mine"}
        answer = await browser.post("/keys/edit", fields)
        assert answer.status_code == 422
        assert "differs from that of the page" in answer.text

    play(server_port, scenario)
    assert get(server_port, "GET", "s") == b"$7\r\nchanged\r\n"


def test_keys_are_created_renamed_expired_and_deleted(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        for kind in ("string", "list", "hash", "set", "zset", "stream"):
            await browser.get("/keys")
            fields = {"name": f"new {kind}", "type": kind, "value": "v"}
            assert (await browser.submit("/keys/create", **fields)).status_code == 303, kind
            assert (await browser.get(show(b"new " + kind.encode()))).status_code == 200
        await browser.get("/keys")
        again = await browser.submit("/keys/create", name="new list", type="string", value="v")
        assert "already" in again.text
        target = {"name": in_url(b"new list"), "type": "list"}
        await browser.get(show(b"new list"))
        await browser.submit("/keys/add", **target, value="w", end="head")
        await browser.get(show(b"new list"))
        await browser.submit("/keys/expire", **target, seconds="500")
        await browser.get(show(b"new list"))
        assert (await browser.submit("/keys/rename", **target, to="moved")).status_code == 303
        await browser.get(show(b"moved"))
        await browser.submit("/keys/remove", name="moved", type="list", place="v")
        await browser.get(show(b"new string"))
        await browser.submit("/keys/delete", name=in_url(b"new string"), type="string")
        trail = (await browser.get("/audit")).text
        for action in ("create key", "add element", "set expiry", "rename key", "delete key"):
            assert action in trail

    play(server_port, scenario)
    assert get(server_port, "LRANGE", "moved", "0", "-1") == b"*1\r\n$1\r\nw\r\n"
    assert get(server_port, "EXISTS", "new string") == b":0\r\n"
    assert get(server_port, "TTL", "moved") > b":400"


def test_a_read_only_user_is_offered_no_change_and_can_make_none(server_port: int) -> None:
    add_users(server_port)
    get(server_port, "SET", "s", "v")

    async def scenario(place: Place) -> None:
        browser = place.browser()
        await browser.sign_in("reader")
        page = (await browser.get(show(b"s"))).text
        assert "<pre>v</pre>" in page
        for path in ("/keys/edit", "/keys/delete", "/keys/rename", "/keys/expire", "/keys/add"):
            assert f'action="{path}"' not in page
        session = next(iter(place.dashboard.sessions._by_hash.values()))
        for path in ("/keys/delete", "/keys/edit", "/keys/add", "/keys/create"):
            token = session.tokens.issue(path, place.dashboard.now_s())
            name = "new" if path == "/keys/create" else "s"
            fields = {"token": token, "name": name, "type": "set", "value": "x"}
            assert (await browser.post(path, fields)).status_code == 403 or path == "/keys/edit"

    play(server_port, scenario)
    assert get(server_port, "GET", "s") == b"$1\r\nv\r\n"


def test_large_values_are_shown_in_part(server_port: int) -> None:
    with RawClient.connect(server_port, 60) as raw:
        raw.command("SET", "huge", b"x" * (100 << 20))
        for start in range(0, 100_000, 10_000):
            raw.command("RPUSH", "long", *map(str, range(start, start + 10_000)))

    async def scenario(place: Place) -> None:
        browser = place.browser()
        answer = await browser.get(show(b"huge"))
        assert answer.status_code == 200
        assert "104,857,600" in answer.text
        assert len(answer.text) < 100_000
        answer = await browser.get(show(b"long") + "&from=99990")
        assert ">99999<" in answer.text.replace("\n", "")
        assert "Next part" not in answer.text
        assert (await browser.get("/keys")).status_code == 200

    play(server_port, scenario)
    get(server_port, "DEL", "huge")


def test_names_and_members_that_are_too_large_hide_nothing_else(
    server_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "MOST_REPLY_BYTES", 1 << 20)  # as 100 MB are with 64 MB
    huge = b"x" * (2 << 20)
    with RawClient.connect(server_port, 60) as raw:
        raw.command("SET", huge, "v")
        raw.command("SET", b"y" * 20_000, "v")
        raw.command("RPUSH", "jobs", "job")
        for n in range(500):  # so that most members are small
            raw.command("SADD", "set", f"member {n}")
            raw.command("HSET", "hash", f"field {n}", "v")
        raw.command("SADD", "set", huge)
        raw.command("HSET", "hash", huge, "v")

    async def scenario(place: Place) -> None:
        browser = place.browser()
        for path in ("/keys", "/keys/big", "/queues"):
            page = (await browser.get(path)).text
            assert ">jobs<" in page, path
            assert len(page) < 100_000
        assert "too long for a page: 2." in (await browser.get("/keys")).text
        assert (await browser.get("/keys/hot")).status_code == 200
        for name in (b"set", b"hash"):
            seen, path = "", show(name)
            while path:
                answer = await browser.get(path)
                assert answer.status_code == 200
                seen += answer.text
                found = re.search(r'rel="next" href="([^"]+)"', answer.text)
                path = html.unescape(found[1]) if found else ""
            kind = "member" if name == b"set" else "field"
            assert not [n for n in range(500) if f"{kind} {n}" not in seen]
            assert len(seen) < 2_000_000
            assert "M in all" in seen or "Not shown: 1 fields" in seen

    play(server_port, scenario)
    get(server_port, "FLUSHALL")


def test_other_databases(server_port: int) -> None:
    with RawClient.connect(server_port) as raw:
        raw.command("SELECT", "3")
        raw.command("SET", "elsewhere", "v")

    async def scenario(place: Place) -> None:
        browser = place.browser()
        assert "elsewhere" not in (await browser.get("/keys")).text
        assert "elsewhere" in (await browser.get("/keys?db=3")).text
        assert (await browser.get("/keys?db=9999")).status_code == 422
        assert (await browser.get("/keys?db=-1")).status_code == 400

    play(server_port, scenario)
