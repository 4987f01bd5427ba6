"""Memory goes back to the system when keys are gone, also where their strings had many sizes."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, encode_command
from tests.harness.processes import wait_until

pytestmark = pytest.mark.source_only

COUNT = 60_000
PER_COMMAND = 100
LONGEST = 2000

Words = tuple[str | bytes, ...]


def strings(rng: random.Random) -> Iterator[Words]:
    for number in range(COUNT):
        yield "SET", f"key:{number}", bytes(rng.randrange(10, LONGEST))


def one_hash(rng: random.Random) -> Iterator[Words]:
    for start in range(0, COUNT, PER_COMMAND):
        words: list[str | bytes] = []
        for number in range(start, start + PER_COMMAND):
            words += f"field:{number}", bytes(rng.randrange(10, LONGEST))
        yield "HSET", "large", *words


def one_list(rng: random.Random) -> Iterator[Words]:
    for _ in range(0, COUNT, PER_COMMAND):
        elements = [bytes(rng.randrange(10, LONGEST)) for _ in range(PER_COMMAND)]
        yield "RPUSH", "large", *elements


def info(client: RawClient) -> dict[str, str]:
    lines = client.command("INFO", "everything").decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


@pytest.mark.parametrize(
    ("fill", "empty"),
    [(strings, ("FLUSHALL",)), (one_hash, ("DEL", "large")), (one_list, ("UNLINK", "large"))],
)
def test_most_of_it_is_returned(
    start_server: Callable[..., HoldfastServer],
    rng: random.Random,
    fill: Callable[[random.Random], Iterator[Words]],
    empty: Words,
) -> None:
    server = start_server("--appendfsync", "no")
    client = server.client(60)
    if info(client)["holdfast_compiled"] != "1":
        pytest.skip("only the C modules give memory back")

    def resident_bytes() -> int:
        """(Not by INFO: a large heap is given back while no client sends commands.)"""
        pages = Path(f"/proc/{server.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    before = resident_bytes()
    for words in fill(rng):
        client.send(encode_command(*words))
        assert client.read_reply()[:1] != b"-"
    wait_until(lambda: info(client)["holdfast_unfolded_ops"] == "0", "the tables to have all", 60)
    full = resident_bytes()
    assert full - before > COUNT * LONGEST // 3
    client.command(*empty)
    most = before + (full - before) // 2
    wait_until(lambda: resident_bytes() < most, f"less than {most:,} of {full:,} bytes", 60)
