"""The page of replication in Chromium: active-active servers, and a primary with its replica."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from holdfast.web.routes import ROUTES
from tests.browser.conftest import Browser, DashboardProcess
from tests.harness import HoldfastServer, RedisServer, wait_until
from tests.replication.crew import ask, await_the_same, cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("browser")]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[HoldfastServer]]:
    with cluster(tmp_path, 3) as found:
        await_the_same(found)
        yield found


def test_links_are_paused_resumed_compared_and_forgotten(
    servers: list[HoldfastServer], driver: webdriver.Chrome, tmp_path: Path
) -> None:
    for server in servers[:2]:
        ask(server, "ACTIVE", "PAUSE")
    ask(servers[0], "SET", "greeting", "hello")
    ask(servers[1], "SET", "greeting", "good morning")
    ask(servers[0], "RPUSH", "both", "a list")
    ask(servers[1], "SADD", "both", "a set")
    for server in servers[:2]:
        ask(server, "ACTIVE", "RESUME")
    await_the_same(servers)
    pressed = set()
    with DashboardProcess(tmp_path / "dashboard", servers[0].port) as process:
        browser = Browser(driver, process.url, "holdfast")

        def press(path: str, said: str) -> None:
            pressed.add(path)
            browser.agree()
            browser.click(f'form[action="{path}"] button')
            browser.wait(lambda: said in browser.text(), said)

        browser.look_at("/replication", "replication")
        assert "Conflicts resolved by rule" in browser.text()
        press("/replication/digests", "All servers have the same data")
        browser.check()
        browser.shot("replication-digests")
        press("/replication/pause", "is cut until it is resumed")
        assert "Resume" in browser.text("#replication")
        browser.shot("replication-paused")
        press("/replication/resume", "is resumed")
        browser.wait(lambda: "Resume" not in browser.text("#replication"), "it is linked again")
        press("/replication/forget", "is forgotten")
        browser.check()
        assert pressed == {
            route.path
            for route in ROUTES
            if route.is_action and route.path.startswith("/replication")
        }
        driver.get("about:blank")


@pytest.mark.parametrize("kind", ["holdfast", "redis"])
def test_a_primary_and_its_replica(kind: str, driver: webdriver.Chrome, tmp_path: Path) -> None:
    server = HoldfastServer if kind == "holdfast" else RedisServer
    with server(tmp_path / "primary") as primary:
        follow = ("--replicaof", f"127.0.0.1 {primary.port}")
        with RedisServer(tmp_path / "replica", *follow) as replica:
            wait_until(
                lambda: b"master_link_status:up" in ask_any(replica, "INFO", "replication"),
                "the replica follows",
            )
            for each, wanted in ((primary, "online"), (replica, "Follows")):
                with DashboardProcess(tmp_path / str(each.port), each.port) as process:
                    browser = Browser(driver, process.url, kind)
                    role = "primary" if each is primary else "replica"
                    browser.look_at("/replication", f"replication-{role}")
                    assert wanted in browser.text()
                    driver.get("about:blank")


def ask_any(server: HoldfastServer | RedisServer, *words: str) -> bytes:
    with server.client() as client:
        return client.command(*words)
