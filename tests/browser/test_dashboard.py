"""The dashboard in Chromium: every page and action, on our server and on redis-server."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from selenium import webdriver
from selenium.webdriver.common.by import By

from holdfast.web.routes import ROUTES
from tests.browser.conftest import PHONE, WIDE, Browser, DashboardProcess, start_driver
from tests.harness import HoldfastServer, RedisServer
from tests.harness.processes import steady_port

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("browser")]
HOSTILE = "<script>document.title='owned'</script>"
EMPTY = "main > .empty, main > div > .empty"
SHOWN = {
    "/keys/show": [f"?name={name}" for name in ("text", "jobs", "hash", "set", "scores", "stream")],
    "/queues/show": ["?library=plain%20list&name=jobs"],
}


@pytest.fixture(autouse=True, scope="module")
def data(backend: HoldfastServer | RedisServer) -> Iterator[None]:
    """Something of everything, with hostile and long names and values, and a user with rules."""
    with redis.Redis(port=backend.port) as client:
        client.flushall()
        client.set("text", "hello\nworld")
        client.set(HOSTILE, HOSTILE)
        client.set(b"\xff\xfe", b"\x00\xff")
        client.rpush("jobs", HOSTILE, *(f"job {n}" for n in range(120)))
        client.hset(
            "hash", mapping={"field": "value", HOSTILE: HOSTILE, "long": "many words " * 60}
        )
        client.set("a:very:long:name:" + "abcdefgh" * 40, "x")
        client.sadd("set", "a", "b", HOSTILE)
        client.zadd("scores", {"one": 1, "two": 2.5, HOSTILE: 3})
        client.xadd("stream", {"event": "started", "name": HOSTILE})
        client.set("session:1", "x", ex=3600)
        client.get("missing")
        rules = ("~app:*", "+@read", "+@write", "-@dangerous")
        client.execute_command("ACL", "SETUSER", "ada", "on", "nopass", *rules)
        yield
        client.execute_command("ACL", "DELUSER", "ada")


def paths() -> list[str]:
    found = []
    for route in ROUTES:
        is_page = not route.is_action and route.path not in ("/events", "/console/commands")
        if is_page and route.title:
            found.append(route.path)
        found += [route.path + query for query in SHOWN.get(route.path, [])]
    return [*dict.fromkeys(found), "/keys/big", "/sign-in"]


def headings(text: str) -> list[str]:
    """The first words of the lines of a page: values and times may change."""
    return [line.split()[0].lower() for line in text.splitlines() if line.strip()][:3]


def name_of(path: str) -> str:
    """For a screenshot: `keys-show-jobs`."""
    place, _, query = path.strip("/").partition("?")
    words = [*place.split("/"), query.rpartition("=")[2]]
    return "-".join(filter(None, words)) or "overview"


def test_every_page_is_sound_and_fits_a_phone(browser: Browser) -> None:
    for path in paths():
        browser.resize(WIDE)
        browser.open(path)
        assert browser.text("h1"), path
        assert "owned" not in browser.driver.title
        browser.check()
        browser.check_width()
        # test_work.py has the full pages of builds and semaphores.
        is_empty = browser.script("return !!document.querySelector(arguments[0])", EMPTY)
        name = f"{name_of(path)}-empty" if is_empty else name_of(path)
        browser.shot(name)
        browser.resize(PHONE)  # the same page: loading it again takes longer
        browser.check_width()
        browser.shot(f"{name}-phone")
    browser.resize(WIDE)


def test_pages_are_sound_in_the_dark(browser: Browser) -> None:
    browser.open("/sign-in")
    browser.script("localStorage.setItem('holdfast-theme', 'dark')")
    for path in ("/", "/keys/show?name=jobs", "/configuration?show=all"):
        browser.open(path)
        browser.check()
        browser.shot(f"{name_of(path)}-dark")
    browser.script("localStorage.clear()")


def test_figures_move_without_loading_the_page(
    browser: Browser, backend: HoldfastServer | RedisServer
) -> None:
    browser.open("/")
    origin = browser.script("return performance.timeOrigin")
    browser.wait(lambda: browser.text("#state") == "live", "the stream is open")
    tile = "[...document.querySelectorAll('.tile')].find((t) => t.innerText.startsWith('Keys'))"
    keys = f"return {tile}.innerText"
    before = browser.script(keys)
    with redis.Redis(port=backend.port) as client:
        client.mset({f"more:{n}": n for n in range(50)})
        browser.wait(lambda: browser.script(keys) != before, "another number of keys")
        client.delete(*(f"more:{n}" for n in range(50)))
    assert browser.script("return performance.timeOrigin") == origin


@pytest.mark.parametrize("span", ["hour", "day", "month"])
def test_charts_show_what_was_before_the_start(browser: Browser, span: str) -> None:
    browser.open(f"/?range={span}")
    values = browser.script(
        "const drawn = document.querySelector('#charts svg[data-chart]');"
        "return JSON.parse(drawn.dataset.chart).lines[0].texts.filter((text) => text !== null)"
    )
    least = {"hour": 300, "day": 700, "month": 160}[span]  # of 360, 720 and 744: a week is known
    assert len(values) >= least
    browser.check()
    browser.shot(f"overview-{span}")


def test_a_key_is_created_changed_and_deleted_by_hand(
    browser: Browser, backend: HoldfastServer | RedisServer
) -> None:
    browser.open("/keys")
    browser.script("document.querySelector('details.card').open = true")
    browser.find('form[action="/keys/create"] input[name=name]').send_keys("made by hand")
    browser.find('form[action="/keys/create"] textarea').send_keys("first\nsecond")
    browser.click('form[action="/keys/create"] button')
    assert "The key was created" in browser.text()
    area = browser.find('form[action="/keys/edit"] textarea')
    area.clear()
    area.send_keys("third")
    browser.click('form[action="/keys/edit"] button')
    assert "The value was changed" in browser.text()
    with redis.Redis(port=backend.port) as client:
        assert client.get("made by hand") == b"third"
        browser.script("window.confirm = () => false")
        browser.find('form[action="/keys/delete"] button').click()
        assert client.exists("made by hand")
        browser.script("window.confirm = () => true")
        browser.click('form[action="/keys/delete"] button')
        assert not client.exists("made by hand")
    browser.open("/audit")
    assert "delete key" in browser.text()
    browser.check()
    browser.shot("audit")


def test_the_console_completes_and_runs(browser: Browser) -> None:
    browser.open("/console")
    line = browser.find("#line")
    offered = "return [...document.querySelectorAll('#commands option')].map((o) => o.value)"

    def is_offered() -> bool:  # the names may come after the first letters
        line.clear()
        line.send_keys("ZAD")
        return "ZADD" in browser.script(offered)

    browser.wait(is_offered, "completion")
    line.clear()
    line.send_keys("LRANGE jobs 0 1")
    browser.click('form[action="/console"] button')
    assert "job 0" in browser.text()
    assert "<script>" in browser.text()
    browser.check()
    browser.shot("console")


# Time stands still: `pass_ms` runs the functions that wait for so long.
STANDING_TIME = """
    window.waiting = []; window.asked = 0; window.now_ms = 0;
    window.setTimeout = window.setInterval = (run, ms, ...words) =>
        window.waiting.push({run: () => run(...words), ms});
    performance.now = () => window.now_ms;
    window.pass_ms = (ms) => {
        const due = window.waiting.filter((each) => each.ms === ms);
        window.waiting = window.waiting.filter((each) => each.ms !== ms);
        due.forEach((each) => each.run());
        return due.length;
    };
"""


def test_a_page_asks_again_after_the_answer_and_the_later_the_longer_it_took(
    browser: Browser,
) -> None:
    command = "Page.addScriptToEvaluateOnNewDocument"
    script = browser.driver.execute_cdp_cmd(command, {"source": STANDING_TIME})
    try:
        browser.open("/queues")
        browser.script(
            "window.fetch = () => { window.asked++; return new Promise((_, end) => {"
            " window.fail = end; }); }"
        )
        due = "return window.pass_ms(3000)"
        assert browser.script(due) == 1
        assert browser.script(due) == 0  # the first one is not answered yet
        assert browser.script("return window.asked") == 1
        browser.script("window.now_ms = 5000; window.fail(new Error('late'))")
        browser.wait(lambda: browser.script("return window.pass_ms(50000)") == 1, "asked later")
        assert browser.script("return window.asked") == 2
    finally:
        remove = "Page.removeScriptToEvaluateOnNewDocument"
        browser.driver.execute_cdp_cmd(remove, {"identifier": script["identifier"]})


def test_keys_of_the_keyboard(browser: Browser) -> None:
    browser.open("/")
    page = browser.find("body")
    page.send_keys("?")
    assert browser.script("return document.querySelector('#help').open")
    browser.find("#help button").click()
    page.send_keys("t")
    theme = browser.script("return document.documentElement.dataset.theme")
    assert theme in ("light", "dark")
    page.send_keys("t")
    assert browser.script("return document.documentElement.dataset.theme") != theme
    page.send_keys("g", "k")
    browser.wait(lambda: browser.driver.current_url.endswith("/keys"), "the page of keys")
    browser.wait(lambda: bool(browser.driver.find_elements(By.CSS_SELECTOR, "[data-search]")), "it")
    browser.find("body").send_keys("/")
    assert browser.script("return document.activeElement.name") == "pattern"
    browser.script("localStorage.clear()")


def test_pages_can_be_read_without_javascript(browser: Browser) -> None:
    driver: webdriver.Chrome = start_driver(javascript=False)
    try:
        for path, wanted in (("/", "Operations/s"), ("/keys", "jobs"), ("/clients", "connections")):
            driver.get(browser.url + path)
            assert wanted in driver.find_element(By.TAG_NAME, "main").text, path
        browser.driver.delete_all_cookies()  # a session of its own, as the other browser has
        for path in paths():
            driver.get(browser.url + path)
            without = driver.find_element(By.TAG_NAME, "main").text
            browser.open(path)
            assert headings(without) == headings(browser.text("main")), path
    finally:
        driver.quit()


def test_a_dashboard_that_is_restarted_under_an_open_page(
    backend: HoldfastServer | RedisServer, kind: str, driver: webdriver.Chrome, tmp_path: Path
) -> None:
    """The page says so, comes back by itself, and its forms are of the new dashboard."""
    port = steady_port()
    with DashboardProcess(tmp_path, backend.port, port) as process:
        browser = Browser(driver, process.url, kind)
        browser.open("/keys/show?name=text")
        browser.wait(lambda: browser.text("#state") == "live", "the stream is open")
    browser.wait(lambda: "dashboard does not answer" in browser.text("#away"), "the page says so")
    before = browser.script("return performance.timeOrigin")
    with DashboardProcess(tmp_path, backend.port, port):
        browser.wait(lambda: browser.is_new(before), "the page is loaded again")
        browser.wait(lambda: browser.text("#state") == "live", "the page goes on")
        browser.find('form[action="/keys/expire"] input[name="seconds"]').send_keys("1000")
        browser.click('form[action="/keys/expire"] button')
        assert "The key expires in 1000 seconds" in browser.text()
        browser.check(allows=("ERR_", "events"))
        driver.get("about:blank")


# The last ones: redis-server loses its data.


def start_again(server: HoldfastServer | RedisServer) -> None:
    """On the same port."""
    if isinstance(server, RedisServer):
        port, server.args = server.port, ("--port", str(server.port))
        server.start()
        server.port = port
    else:
        server.start()


@pytest.mark.parametrize("how", ["killed", "silent"])
@pytest.mark.parametrize("path", ["/", "/queues", "/keys"])
def test_a_server_that_goes_away_under_an_open_page(
    browser: Browser, backend: HoldfastServer | RedisServer, path: str, how: str
) -> None:
    """The page says so, and goes on by itself."""
    browser.open(path)
    browser.wait(lambda: browser.text("#state") == "live", "the stream is open")
    if how == "killed":
        backend.kill()
    else:
        os.kill(backend.pid, signal.SIGSTOP)
    browser.wait(lambda: "does not answer" in browser.text("#away"), "the page says so")
    browser.shot("away")
    if how == "killed":
        start_again(backend)
    else:
        os.kill(backend.pid, signal.SIGCONT)
    browser.wait(lambda: browser.text("#state") == "live", "the page goes on")
    assert not browser.find("#away").is_displayed()
    browser.check(allows=("503",))
