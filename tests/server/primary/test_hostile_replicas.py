"""Clients that pretend to be replicas, and say nonsense: the primary goes on, and so does a replica
that is one."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RawClient, RedisServer, wait_until
from tests.server.primary.following import follow, info, wait_for_replica

pytestmark = [pytest.mark.oracle, pytest.mark.source_only, pytest.mark.timeout(300)]

NUMBERS = ("-1", "0", "1", "7", "2147483648", "9223372036854775807", "-9223372036854775808", "x")
OPTIONS = (
    *("listening-port", "ip-address", "capa", "rdb-only", "rdb-filter-only", "version", "ack"),
    *("getack", "nonsense"),
)
WORDS = ("eof", "psync2", "functions", "9.0.0", "8.1.2", "", "*", "\0", "é" * 300, *NUMBERS)


def say(rng: random.Random, client: RawClient, ids: tuple[str, ...]) -> None:
    match rng.randrange(8):
        case 0 | 1 | 2:
            pairs = [
                (rng.choice(OPTIONS), rng.choice(WORDS)) for _ in range(rng.choice((1, 1, 1, 3)))
            ]
            client.send_command("REPLCONF", *(word for pair in pairs for word in pair))
        case 3 | 4:
            client.send_command("PSYNC", rng.choice(ids), rng.choice(NUMBERS))
        case 5:
            client.send_command("SYNC")
        case 6:
            client.send_command(*rng.choice((("MULTI",), ("EXEC",), ("RESET",), ("PING",))))
        case _:
            client.send(rng.choice((b"\n", b"\r\n" * 50, b"*1\r\n", rng.randbytes(30))))


def some_nonsense(
    rng: random.Random, primary: HoldfastServer, replica: RedisServer, count: int
) -> None:
    client = primary.client()
    client.command("DEBUG", "POPULATE", 1000)
    copy = follow(primary, replica)
    ids = ("?", "x", info(client)["master_replid"], "0" * 40)
    before_kb = resident_kb(primary.pid)
    for number in range(count):
        with primary.client() as stranger:
            with suppress(OSError):
                for _ in range(rng.randrange(1, 12)):
                    say(rng, stranger, ids)
            client.command("INCR", "n")
            with suppress(OSError):
                stranger.send_command("REPLCONF", "ACK", number)
    wait_until(lambda: info(client)["connected_slaves"] == "1", "all strangers have left")
    assert client.command("GET", "n").split(b"\r\n")[1] == b"%d" % count
    wait_for_replica(client)
    assert copy.command("DEBUG", "DIGEST") == client.command("DEBUG", "DIGEST")
    wait_until(
        lambda: b"rdb_bgsave_in_progress:0" in client.command("INFO", "persistence"), "it is over"
    )
    assert resident_kb(primary.pid) - before_kb < 64 << 10
    assert "Traceback" not in primary.stderr


def resident_kb(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])


def test_nonsense(rng: random.Random, primary: HoldfastServer, replica: RedisServer) -> None:
    some_nonsense(rng, primary, replica, 60)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_much_nonsense(rng: random.Random, primary: HoldfastServer, replica: RedisServer) -> None:
    some_nonsense(rng, primary, replica, 5000)
