"""A real browser, the dashboard as a process, and real servers behind it."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import redis
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.past import write_week
from tests.browser.work import Work, at_work
from tests.harness import HoldfastServer, RedisServer
from tests.harness.browser import CHROMIUM, DRIVER, NO_BROWSER
from tests.harness.processes import steady_port, wait_until

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build/screenshots"
AXE = ROOT / "build/axe/package/axe.min.js"
PATIENCE_S = 60
WIDE, PHONE = (1280, 860), (390, 844)
START_S = 120
SERIOUS = ("serious", "critical")
GUIDE = ROOT / "docs/guide-dashboard.md"
# Screenshots that the guide has: HOLDFAST_GUIDE_IMAGES=1 makes them anew.
FOR_GUIDE = ROOT / "docs/images" if os.environ.get("HOLDFAST_GUIDE_IMAGES") else None


# Cells with one short word that takes more than one line.
BROKEN_WORDS = """
    const lines = (each) => {
        const range = document.createRange();
        range.selectNodeContents(each);
        return new Set([...range.getClientRects()].map((r) => Math.round(r.bottom))).size;
    };
    return [...document.querySelectorAll('main td, main dd')].map((each) => [each, each.innerText])
        .filter(([each, text]) => /^\\S{1,10}$/.test(text.trim()) && !each.children.length
            && lines(each) > 1)
        .map(([, text]) => text);
"""


class DashboardProcess:
    """`holdfast dashboard`, on a port of its own unless one is given."""

    def __init__(self, folder: Path, server_port: int, port: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / "log"
        url = f"redis://127.0.0.1:{server_port}"
        options = ("--port", str(port), "--history", str(folder / "history.db"))
        argv = [sys.executable, "-m", "holdfast", "dashboard", url, *options]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        with self._log.open("w") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, env=env)
        try:
            is_over = self._process.poll
            wait_until(lambda: " ready on " in self.log or is_over() is not None, "ready", START_S)
            found = re.search(r"ready on (\S+)/", self.log)
            assert found is not None, self.log
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self.url = found[1]

    @property
    def log(self) -> str:
        return self._log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        assert "Traceback" not in self.log, self.log


class Browser:
    """Chromium, and what must be true of every page that it shows."""

    def __init__(self, driver: Any, url: str, name: str) -> None:
        self.driver = driver  # selenium has few types
        self.url = url
        self.name = name  # of the server, in names of files
        self.uses_axe = AXE.exists()
        for log in ("browser", "performance"):
            self.driver.get_log(log)  # the last requests to another dashboard are not this one's

    def open(self, path: str) -> None:
        self.driver.get(self.url + path)
        self.wait(lambda: self.script("return document.readyState") == "complete", path)

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def wait(self, predicate: Any, what: str) -> None:
        WebDriverWait(self.driver, PATIENCE_S, 0.05).until(lambda _: predicate(), what)

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        return str(
            self.script("return document.querySelector(arguments[0])?.innerText || ''", selector)
        )

    def click(self, selector: str) -> None:
        """Click, and wait for the page that follows."""
        before = self.script("return performance.timeOrigin")
        while True:
            found = self.find(selector)
            try:
                self.script("arguments[0].scrollIntoView({block: 'center'})", found)
                found.click()
                break
            except StaleElementReferenceException:
                continue  # this part of the page was loaded again in between
        self.wait(lambda: self.is_new(before), f"a new page after {selector}")

    def is_new(self, before: float) -> bool:
        state = "return performance.timeOrigin > arguments[0] && document.readyState === 'complete'"
        return bool(self.script(state, before))

    def look_at(self, path: str, name: str) -> None:
        """A page in both themes, and on a phone: sound, and with a screenshot of each."""
        self.resize(WIDE)
        if not self.driver.current_url.startswith(self.url):
            self.open(path)  # only a page of ours can store the theme
        for theme in ("light", "dark"):
            self.script("localStorage.setItem('holdfast-theme', arguments[0])", theme)
            self.open(path)
            assert self.text("h1"), path
            self.check()
            self.shot(name if theme == "light" else f"{name}-dark")
        self.script("localStorage.clear()")
        self.resize(PHONE)
        self.open(path)
        self.check_width()
        self.check()
        self.shot(f"{name}-phone")
        self.resize(WIDE)

    def resize(self, size: tuple[int, int]) -> None:
        """The size of the page. A window of Chromium cannot be as narrow as a phone."""
        screen = {"width": size[0], "height": size[1], "deviceScaleFactor": 1}
        screen["mobile"] = size == PHONE
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        self.driver.execute_async_script(  # the page hears of it before it is drawn
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));"
        )

    def check_width(self) -> None:
        """The page is not wider than its window. No column of a table is cut off, a narrow table
        fills its box, and no short word is broken."""
        where = self.driver.current_url
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert self.script(wide) <= 0, where
        cut = (
            "return [...document.querySelectorAll('main table')].filter((each) =>"
            " each.scrollWidth > each.clientWidth).map((each) => each.innerText)"
        )
        assert not self.script(cut), where
        narrow = (
            "return [...document.querySelectorAll('main table')].filter((each) =>"
            " each.rows[each.rows.length - 1].offsetWidth < each.clientWidth - 2)"
            ".map((each) => each.innerText)"
        )
        assert not self.script(narrow), where
        assert not self.script(BROKEN_WORDS), where

    def agree(self) -> None:
        """Say yes to the next question of the page."""
        self.script("window.confirm = () => true")

    def shot(self, name: str) -> None:
        """The whole page, also what a reader would have to scroll to."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        wanted = {"captureBeyondViewport": True, "format": "png"}
        found = self.driver.execute_cdp_cmd("Page.captureScreenshot", wanted)
        (SHOTS / f"{self.name}-{name}.png").write_bytes(base64.b64decode(found["data"]))
        picture = f"dashboard-{name}.png"
        if FOR_GUIDE is not None and self.name == "holdfast" and picture in GUIDE.read_text():
            self.driver.save_screenshot(str(FOR_GUIDE / picture))

    def check(self, *, allows: tuple[str, ...] = ()) -> None:
        """No error in the console, no request off the machine, nothing serious for axe."""
        where = self.driver.current_url
        errors = [
            each["message"]
            for each in self.driver.get_log("browser")
            if each["level"] == "SEVERE" and not any(text in each["message"] for text in allows)
        ]
        assert not errors, (where, errors)
        for each in self.driver.get_log("performance"):
            message = json.loads(each["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked = message["params"]["request"]["url"]
                assert asked.startswith((self.url + "/", "data:", "chrome:", "about:")), asked
        if self.uses_axe:
            self.script(AXE.read_text())
            run = "const done = arguments[0]; axe.run().then((r) => done(r.violations))"
            found = self.driver.execute_async_script(run)
            serious = [
                (each["id"], [node["html"][:200] for node in each["nodes"]][:3])
                for each in found
                if each["impact"] in SERIOUS
            ]
            assert not serious, (where, serious)


def start_driver(*, javascript: bool = True) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    assert CHROMIUM is not None
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--window-size=1280,860",
        "--disable-background-networking",
        "--disable-component-update",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    if not javascript:
        blocked = {"profile.managed_default_content_settings.javascript": 2}
        options.add_experimental_option("prefs", blocked)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(PATIENCE_S)
    driver.set_script_timeout(PATIENCE_S)
    return driver


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM is None or DRIVER is None:
        for item in items:
            if "tests/browser" in str(item.path):
                item.add_marker(pytest.mark.skip(reason=NO_BROWSER))


@pytest.fixture(scope="module")
def driver() -> Iterator[webdriver.Chrome]:
    found = start_driver()
    yield found
    found.quit()


@pytest.fixture(scope="module", params=["holdfast", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def backend(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HoldfastServer | RedisServer]:
    """A server that can be restarted on its port."""
    folder = tmp_path_factory.mktemp(kind)
    if kind == "redis":
        with RedisServer(folder) as redis:
            yield redis
        return
    with HoldfastServer(folder, "--port", str(steady_port())) as server:
        yield server


@pytest.fixture(scope="module")
def browser(
    request: pytest.FixtureRequest,
    kind: str,
    backend: HoldfastServer | RedisServer,
    driver: webdriver.Chrome,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("dashboard")
    write_week(folder / "history.db")
    with DashboardProcess(folder, backend.port) as process:
        found = Browser(driver, process.url, kind)
        # Most of the time is axe's. The pages of both servers are of the same templates, so the
        # quick tests let it look at one of them.
        if kind == "redis" and request.node.get_closest_marker("slow") is None:
            found.uses_axe = False
        yield found
        driver.get("about:blank")


@pytest.fixture(scope="module")
def work(backend: HoldfastServer | RedisServer) -> Iterator[Work]:
    """A backend with builds, semaphores and locks, and nothing else."""
    with redis.Redis(port=backend.port) as client:
        client.flushall()
    with at_work(backend.port) as found:
        yield found
