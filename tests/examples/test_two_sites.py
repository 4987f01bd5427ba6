"""Two sites: both take writes while the line is cut, and come to the same afterwards."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.examples.example import TIMEOUT_S, Example
from tests.harness import HoldfastServer, wait_until
from tests.harness.processes import steady_port

pytestmark = pytest.mark.timeout(300)  # of a busy machine


@pytest.fixture
def sites(example: Example, tmp_path: Path) -> Iterator[list[HoldfastServer]]:
    """Both servers with the configuration files that are shipped, for other ports. (The third
    server, which every example has, is not used.)"""
    ports = {"7001": str(steady_port()), "7002": str(steady_port())}
    with ExitStack() as stack:
        found: list[HoldfastServer] = []
        for name in ("north", "south"):
            text = (example.path / f"{name}.conf").read_text()
            for shipped, free in ports.items():
                assert text.count(shipped) == 1
                text = text.replace(shipped, free)
            config = tmp_path / f"{name}.conf"
            config.write_text(text)
            found.append(stack.enter_context(ConfiguredServer(tmp_path, config)))
        wait_until(lambda: all(map(takes_writes, found)), "both are linked", TIMEOUT_S)
        yield found


class ConfiguredServer(HoldfastServer):
    """`holdfast serve FILE`: port and database are those in the file."""

    def __init__(self, folder: Path, config: Path) -> None:
        super().__init__(folder / config.stem)
        self._config = config

    def start(self) -> None:
        argv = [self._python, "-m", "holdfast", "serve", str(self._config)]
        ready = self._spawn(argv, self._env)
        assert ready is not None, f"holdfast did not start: {self._said()}"
        self.port = int(ready["where"].partition(",")[0].rpartition(":")[2])


def ask(site: HoldfastServer, *command: str) -> bytes:
    with site.client() as client:
        return client.command(*command)


def takes_writes(site: HoldfastServer) -> bool:
    return ask(site, "SET", "probe", "1") == b"+OK\r\n"


def test_both_sites_sell_while_the_line_is_cut(
    example: Example, sites: list[HoldfastServer]
) -> None:
    def till(site: HoldfastServer, *more: str) -> list[str]:
        url = f"redis://127.0.0.1:{site.port}"
        return example.run("python till.py", *more, HOLDFAST_URL=url).splitlines()

    def is_same() -> bool:
        north, south = (ask(site, "ACTIVE", "DIGEST") for site in sites)
        return north == south

    north, south = sites
    till(north, "sell", "apple", "3")
    till(south, "sell", "apple", "2")
    wait_until(is_same, "each knows the sale of the other", TIMEOUT_S)
    assert till(north, "report")[0] == "apple: 5 sold, now at no price"

    assert ask(north, "ACTIVE", "PAUSE") == b"+OK\r\n"
    till(north, "sell", "apple", "10")
    till(north, "price", "apple", "0.30")
    till(south, "sell", "apple", "20")
    till(south, "price", "apple", "0.40")
    assert till(north, "report")[0] == "apple: 15 sold, now at 0.30"
    assert till(south, "report")[0] == "apple: 25 sold, now at 0.40"
    south.kill()
    south.start()

    ask(north, "ACTIVE", "RESUME")
    wait_until(is_same, "both have all sales", TIMEOUT_S)
    report = till(north, "report")
    assert report == till(south, "report")
    assert report[0] == "apple: 35 sold, now at 0.40"
    receipts = report[1].removeprefix("receipts: ").split(", ")
    assert sorted(receipts) == ["10 apple", "2 apple", "20 apple", "3 apple"]
