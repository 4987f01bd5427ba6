"""Builds and semaphores in Chromium, while a worker and clients use them."""

import pytest

from tests.browser.conftest import Browser
from tests.browser.work import HOSTILE, Work

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("browser")]
LOCK = "%3Cscript%3Edocument.title%3D%27owned%27%3C%2Fscript%3E"
PAGES = {
    "builds": "/builds?queue=ci",
    "builds-show": "/builds/show?queue=ci&build=12",
    "builds-failed": "/builds/show?queue=ci&build=5",
    "builds-graph": "/builds/graph?queue=ci",
    "builds-replay": "/builds/replay?queue=ci&n=14",
    "builds-search": "/builds/search?queue=ci&text=exit",
    "semaphores": "/semaphores",
    "semaphores-show": "/semaphores/show?namespace=adv-sem&name=licences",
    "semaphores-lock": f"/semaphores/show?namespace=adv-sem&name={LOCK}",
}


def test_pages_of_work_are_sound_in_both_themes_and_on_a_phone(
    browser: Browser, work: Work
) -> None:
    browser.open("/sign-in")
    for name, path in PAGES.items():
        browser.look_at(path, name)
        assert not browser.driver.title.startswith("owned")


def test_the_board_says_in_words_why_builds_wait(browser: Browser, work: Work) -> None:
    browser.open("/builds?queue=ci")
    text = browser.text("#board")
    assert "It runs on builder-1" in text
    assert "It waits for jobs that must not run beside it: build 10 of compile" in text
    assert "Its delay has not ended, for 2 h more" in text or "min more" in text
    assert HOSTILE in text
    work.run(work.queue.abort(14))
    browser.wait(lambda: "14" not in browser.text(".board .column:first-child"), "it moved")


def test_the_slider_goes_through_the_history_by_mouse_and_keyboard(
    browser: Browser, work: Work
) -> None:
    browser.open("/builds/replay?queue=ci&n=0")
    assert "Change 1 of" in browser.text()
    browser.click('a[rel="next"]')
    assert "Change 2 of" in browser.text()
    before = browser.script("return performance.timeOrigin")
    browser.find('input[type="range"]').send_keys("\ue014")  # the arrow to the right
    browser.wait(lambda: browser.is_new(before), "the change after")
    assert "Change 3 of" in browser.text()
    browser.check()


def test_finished_builds_are_found_while_one_types_words(browser: Browser, work: Work) -> None:
    browser.open("/builds/search?queue=ci")
    browser.find('input[name="text"]').send_keys("unit suc")
    browser.click('form[action="/builds/search"] button')
    rows = browser.script("return document.querySelectorAll('tbody tr').length")
    assert rows == 2
    assert "finished builds are in the index" in browser.text()


def test_the_waiters_of_a_semaphore_change_while_the_page_is_open(
    browser: Browser, work: Work
) -> None:
    browser.open(PAGES["semaphores-show"])
    assert "Waiters, in order" in browser.text()
    row = "return document.querySelectorAll('#semaphore table:last-of-type tbody tr').length"
    assert browser.script(row) == 2
    browser.check()
    browser.open(PAGES["semaphores-lock"])
    assert "fencing token" in browser.text("#semaphore th:nth-child(3)")
