"""Every action of the dashboard, by its button, in Chromium. The links of servers are in
test_replication.py."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import redis

from holdfast.web.routes import ROUTES
from tests.browser.conftest import Browser
from tests.browser.work import Work
from tests.harness import HoldfastServer, RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("browser")]
PASSWORD = "correct horse"


class Stage(NamedTuple):
    browser: Browser
    client: Any  # of redis-py, which has few types
    work: Work
    kind: str

    def press(self, path: str, said: str = "", within: str = "") -> None:
        """Press the button of the form for this path, and agree; the next page says this."""
        browser = self.browser
        browser.agree()
        browser.click(f'{within} form[action="{path}"] button')
        assert said in browser.text(), browser.text()
        browser.check()

    def fill(self, path: str, **fields: str) -> None:
        """Type into the form for this path."""
        for name, text in fields.items():
            field = self.browser.find(f'form[action="{path}"] [name="{name}"]')
            if field.tag_name == "select":
                field.send_keys(text)
                continue
            field.clear()
            field.send_keys(text)


@pytest.fixture
def stage(
    browser: Browser, backend: HoldfastServer | RedisServer, work: Work, kind: str
) -> Iterator[Stage]:
    with redis.Redis(port=backend.port) as client:
        yield Stage(browser, client, work, kind)


ACTIONS: dict[str, Callable[[Stage], None]] = {}


def action(path: str) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    def note(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        ACTIONS[path] = play
        return play

    return note


def of_pages() -> list[str]:
    paths = [route.path for route in ROUTES if route.is_action]
    return [path for path in paths if not path.startswith("/replication")]


@pytest.mark.parametrize("path", of_pages())
def test_an_action_does_what_its_button_says(stage: Stage, path: str) -> None:
    ACTIONS[path](stage)


# -- builds -------------------------------------------------------------------------------------


@action("/builds/abort")
def abort(stage: Stage) -> None:
    stage.browser.open("/builds/show?queue=ci&build=14")
    stage.press("/builds/abort", "was aborted")
    assert "BuildAborted" in stage.browser.text(".timeline")


@action("/builds/retry")
def retry(stage: Stage) -> None:
    stage.browser.open("/builds/show?queue=ci&build=5")
    stage.press("/builds/retry", "is new and has its settings")
    assert "Retry of" in stage.browser.text()


@action("/builds/start")
def start(stage: Stage) -> None:
    stage.browser.open("/builds/show?queue=ci&build=13")
    stage.press("/builds/start", "is on offer")
    wanted = "It ran without a failure"

    def is_done() -> bool:
        stage.browser.open("/builds/show?queue=ci&build=13")
        return wanted in stage.browser.text()

    stage.browser.wait(is_done, "the worker has run it")


@action("/builds/freeze")
def freeze(stage: Stage) -> None:
    stage.browser.open("/builds/show?queue=ci&build=12")
    stage.fill("/builds/freeze", **{"for": "8 hours"})
    stage.press("/builds/freeze", "is frozen: its builds do not start")
    assert "package is frozen for 8 h more" in stage.browser.text("#board")
    stage.browser.shot("builds-frozen")
    stage.work.run(stage.work.queue.thaw("package"))


@action("/builds/thaw")
def thaw(stage: Stage) -> None:
    stage.work.run(stage.work.queue.freeze("package"))
    stage.browser.open("/builds?queue=ci")
    assert "package is frozen until it is thawed" in stage.browser.text("#board")
    stage.press("/builds/thaw", "package is thawed")
    assert stage.work.run(stage.work.queue.stats()).frozen_jobs == {}


# -- semaphores ---------------------------------------------------------------------------------


@action("/semaphores/release")
def release(stage: Stage) -> None:
    browser = stage.browser
    browser.open("/semaphores/show?namespace=adv-sem&name=licences")
    holder = "return document.querySelector('#semaphore tbody td').innerText"
    before = browser.script(holder)
    browser.script("window.confirm = (text) => { window.asked = text; return false; }")
    browser.find('form[action="/semaphores/release"] button').click()
    asked = browser.script("return window.asked")
    assert "Only fencing tokens protect the data that it writes" in asked
    assert browser.script(holder) == before
    stage.press("/semaphores/release", "The slot was taken from its holder")
    assert before not in browser.text("#semaphore")


# -- keys ---------------------------------------------------------------------------------------


def show(stage: Stage, name: str, more: str = "") -> None:
    stage.browser.open(f"/keys/show?name={quote(name)}{more}")


@action("/keys/create")
def create(stage: Stage) -> None:
    for kind in ("string", "list", "hash", "set", "zset", "stream"):
        name = f"made:{kind}"
        stage.client.delete(name)
        stage.browser.open("/keys")
        stage.browser.script("document.querySelector('details.card').open = true")
        stage.fill("/keys/create", name=name, type=kind, field="7", value="first")
        stage.press("/keys/create", "The key was created")
        assert stage.client.type(name) == kind.encode()


@action("/keys/edit")
def edit(stage: Stage) -> None:
    client = stage.client
    client.delete("e:string", "e:list", "e:hash", "e:zset")
    client.set("e:string", b"\xff\x00", ex=3600)
    client.rpush("e:list", "one", "two")
    client.hset("e:hash", "field", "old")
    client.zadd("e:zset", {"member": 1})
    show(stage, "e:string")
    stage.fill("/keys/edit", value="\\xfe\\n")
    stage.press("/keys/edit", "The value was changed")
    assert client.get("e:string") == b"\xfe\n"
    assert client.ttl("e:string") > 0
    for name, place, new in (("e:list", "1", "2"), ("e:hash", "field", "new")):
        show(stage, name, f"&edit={place}")
        stage.fill("/keys/edit", value=new)
        stage.press("/keys/edit", "The value was changed")
    assert client.lrange("e:list", 0, -1) == [b"one", b"2"]
    assert client.hget("e:hash", "field") == b"new"
    show(stage, "e:zset", "&edit=member")
    stage.fill("/keys/edit", value="2.5")
    stage.press("/keys/edit", "The score was changed")
    assert client.zscore("e:zset", "member") == 2.5


@action("/keys/add")
def add(stage: Stage) -> None:
    client = stage.client
    client.delete("a:list", "a:hash", "a:set", "a:zset", "a:stream")
    client.rpush("a:list", "one")
    client.hset("a:hash", "field", "one")
    client.sadd("a:set", "one")
    client.zadd("a:zset", {"one": 1})
    client.xadd("a:stream", {"field": "one"})
    fields = {"a:hash": {"field": "f"}, "a:zset": {"score": "5"}, "a:stream": {"field": "f"}}
    for name in ("a:list", "a:hash", "a:set", "a:zset", "a:stream"):
        show(stage, name)
        stage.browser.script("document.querySelector('details.card').open = true")
        stage.fill("/keys/add", value="two", **fields.get(name, {}))
        stage.press("/keys/add", "It was added")
    assert client.lrange("a:list", 0, -1) == [b"one", b"two"]
    assert client.hget("a:hash", "f") == b"two"
    assert client.smembers("a:set") == {b"one", b"two"}
    assert client.zscore("a:zset", "two") == 5
    assert client.xlen("a:stream") == 2


@action("/keys/remove")
def remove(stage: Stage) -> None:
    client = stage.client
    client.delete("r:list", "r:hash", "r:set", "r:zset", "r:stream")
    client.rpush("r:list", "one", "two")
    client.hset("r:hash", mapping={"a": "1", "b": "2"})
    client.sadd("r:set", "one", "two")
    client.zadd("r:zset", {"one": 1, "two": 2})
    client.xadd("r:stream", {"field": "one"})
    client.xadd("r:stream", {"field": "two"})
    for name in ("r:list", "r:hash", "r:set", "r:zset", "r:stream"):
        show(stage, name)
        stage.press("/keys/remove", "It was removed")
        left = stage.browser.script("return document.querySelectorAll('tbody tr').length")
        assert left == 1, name


@action("/keys/delete")
def delete(stage: Stage) -> None:
    stage.client.set("gone", "x")
    show(stage, "gone")
    stage.press("/keys/delete", "gone was deleted")
    assert not stage.client.exists("gone")


@action("/keys/rename")
def rename(stage: Stage) -> None:
    stage.client.delete("new name")
    stage.client.set("old name", "x")
    show(stage, "old name")
    stage.fill("/keys/rename", to="new name")
    stage.press("/keys/rename", "The key was renamed")
    assert stage.client.get("new name") == b"x"


@action("/keys/expire")
def expire(stage: Stage) -> None:
    stage.client.set("brief", "x")
    show(stage, "brief")
    stage.fill("/keys/expire", seconds="3600")
    stage.press("/keys/expire", "The key expires in 3600 seconds")
    assert 0 < stage.client.ttl("brief") <= 3600
    stage.press("/keys/expire", "The key does not expire")
    assert stage.client.ttl("brief") == -1


@action("/keys/hot")
def hot(stage: Stage) -> None:
    browser = stage.browser
    browser.open("/keys/hot")
    if stage.kind == "redis":  # 7.0 counts uses only with an LFU policy
        assert "does not count uses" in browser.text()
        stage.client.set("hot", "x")
        stage.client.config_set("maxmemory-policy", "allkeys-lfu")
        browser.open("/keys/hot")
        assert "OBJECT FREQ" in browser.text()
        stage.client.config_set("maxmemory-policy", "noeviction")
        return
    stage.fill("/keys/hot", seconds="60")
    stage.press("/keys/hot", "The server counts for 60 seconds")
    for _ in range(50):
        stage.client.set("hot", "x" * 1000)
    browser.wait(lambda: "hot" in browser.text("#hot table"), "the key is listed")
    browser.look_at("/keys/hot", "keys-hot")
    stage.client.execute_command("HOTKEYS", "STOP")


@action("/console")
def console(stage: Stage) -> None:
    stage.browser.open("/console")
    stage.fill("/console", line='SET "from the console" 1')
    stage.press("/console", "OK")
    assert stage.client.get("from the console") == b"1"
    stage.fill("/console", line="BLPOP nothing 0")
    stage.press("/console", "BLPOP")
    assert "wait" in stage.browser.text()


# -- operation ----------------------------------------------------------------------------------


@action("/slow-log/reset")
def reset(stage: Stage) -> None:
    stage.client.config_set("slowlog-log-slower-than", 0)
    stage.client.get("slow")
    stage.client.config_set("slowlog-log-slower-than", 60_000_000)  # on a busy machine, too
    stage.browser.look_at("/slow-log", "slow-log")
    stage.press("/slow-log/reset", "The slow log is empty")
    assert "No slow commands" in stage.browser.text()
    stage.client.config_set("slowlog-log-slower-than", 10_000)


@action("/clients/kill")
def kill(stage: Stage) -> None:
    with redis.Redis(port=stage.client.get_connection_kwargs()["port"]) as other:
        other.client_setname("to-be-closed")
        number = other.client_id()
        stage.browser.open("/clients")
        row = "//tr[td[contains(., 'to-be-closed')]]//button"
        stage.browser.agree()
        before = stage.browser.script("return performance.timeOrigin")
        stage.browser.driver.find_element("xpath", row).click()
        stage.browser.wait(lambda: stage.browser.is_new(before), "the page after")
        assert f"The connection {number} was closed" in stage.browser.text()


@action("/configuration/set")
def set_parameter(stage: Stage) -> None:
    stage.browser.open("/configuration?pattern=slowlog-max-len&edit=slowlog-max-len")
    stage.fill("/configuration/set", value="99")
    stage.press("/configuration/set", "slowlog-max-len was changed")
    assert stage.client.config_get("slowlog-max-len") == {"slowlog-max-len": "99"}
    stage.browser.look_at("/configuration", "configuration")
    stage.client.config_set("slowlog-max-len", 128)


@action("/configuration/rewrite")
def rewrite(stage: Stage) -> None:
    stage.browser.open("/configuration")
    stage.browser.agree()
    stage.browser.click('form[action="/configuration/rewrite"] button')
    assert "without a config file" in stage.browser.text()
    stage.browser.check(allows=("422",))


@action("/sign-in")
def sign_in(stage: Stage) -> None:
    stage.client.execute_command("ACL", "SETUSER", "ada", "on", f">{PASSWORD}", "~*", "+@all")
    stage.browser.open("/sign-in")
    stage.fill("/sign-in", username="ada", password="wrong")
    stage.browser.click('main form[action="/sign-in"] button')
    assert "does not accept" in stage.browser.text()
    stage.browser.check(allows=("403",))
    stage.fill("/sign-in", username="ada", password=PASSWORD)
    stage.press("/sign-in", "Overview", within="main")
    assert "ada" in stage.browser.text("header")
    stage.press("/sign-out", "", within="header")
    stage.client.execute_command("ACL", "DELUSER", "ada")


@action("/sign-out")
def sign_out(stage: Stage) -> None:
    rules = ("~*", "+@read", "+@connection", "+info", "+command")
    stage.client.execute_command("ACL", "SETUSER", "eve", "on", f">{PASSWORD}", *rules)
    stage.browser.open("/sign-in")
    stage.fill("/sign-in", username="eve", password=PASSWORD)
    stage.browser.click('main form[action="/sign-in"] button')
    assert "read-only" in stage.browser.text("header")
    stage.client.set("readable", "x")
    show(stage, "readable")
    assert not stage.browser.driver.find_elements("css selector", "main form[method=post]")
    stage.browser.shot("read-only")
    stage.press("/sign-out", "", within="header")
    assert "eve" not in stage.browser.text("header")
    stage.client.execute_command("ACL", "DELUSER", "eve")
