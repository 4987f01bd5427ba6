"""The queues of real libraries at work, in Chromium."""

from pathlib import Path

import pytest
from selenium import webdriver

from tests.browser.conftest import Browser, DashboardProcess
from tests.harness import HoldfastServer, RedisServer
from tests.web.readers.libraries.scene import WORKERS, at_work

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("browser")]


@pytest.mark.parametrize("kind", ["holdfast", "redis"])
@pytest.mark.parametrize("name", WORKERS)
def test_a_library_is_shown_in_its_own_words(
    name: str, kind: str, driver: webdriver.Chrome, tmp_path: Path
) -> None:
    see(name, kind, driver, tmp_path)


def see(name: str, kind: str, driver: webdriver.Chrome, folder: Path) -> None:
    server = HoldfastServer if kind == "holdfast" else RedisServer
    with (
        server(folder / "server") as place,
        at_work(name, place.port, folder),
        DashboardProcess(folder / "dashboard", place.port) as process,
    ):
        browser = Browser(driver, process.url, kind)
        browser.look_at("/queues", f"queues-{name}")
        assert name in browser.text("#queues tbody")
        browser.click("#queues tbody a")
        addresses = browser.script(
            "return [...document.querySelectorAll('.tabs[aria-label^=State] a')].map((a) => a.href)"
        )
        assert addresses
        for address in reversed(addresses):
            browser.open(address.removeprefix(process.url))
            browser.script("document.querySelectorAll('details.job').forEach((d) => d.open = true)")
            browser.check()
        browser.shot(f"queue-{name}")
        driver.get("about:blank")
