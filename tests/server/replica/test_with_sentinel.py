"""redis-sentinel watches Holdfast servers, and clients follow when another one is the primary."""

import asyncio
import os
import random
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError
from redis.sentinel import Sentinel as SentinelOfRedis

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.errors import ClientError, ServerError
from tests.harness import HoldfastServer, RedisServer, wait_until
from tests.harness.processes import ServerProcess, SteadyServer
from tests.harness.sentinel import Sentinel
from tests.server.replica.servers import OPTIONS

pytestmark = [pytest.mark.oracle, pytest.mark.source_only, pytest.mark.timeout(180)]

FAILOVERS = int(os.environ.get("HOLDFAST_FAILOVERS", "20"))
WAYS = (signal.SIGSTOP, signal.SIGKILL)
# Sentinel has a minimum of 10 s and 1 s for these two; its own tests lower them likewise. When the
# primary is down it asks replicas for INFO once a second, and chooses none whose INFO is older than
# five ping periods. So these must be more than a second, or it mostly finds no good replica.
QUICK = ("info-period", "100", "ping-period", "400")


def replication(server: ServerProcess) -> dict[str, object]:
    """INFO of a server. Nothing if Sentinel cuts off its clients, as it does with each new role."""
    with Redis(port=server.port) as client:
        try:
            return dict(client.info("replication"))
        except RedisError:
            return {}


def leads(server: ServerProcess) -> bool:
    return replication(server).get("role") == "master"


class Crew:
    """A primary with two replicas, and the sentinel that watches them."""

    def __init__(self, servers: list[ServerProcess], sentinel: Sentinel) -> None:
        self.servers = servers
        self.sentinel = sentinel
        self.url = f"redis+sentinel://127.0.0.1:{sentinel.port}/main"

    @property
    def primary(self) -> ServerProcess:
        """As the sentinel says."""
        with self.sentinel.client() as client:
            reply = client.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
        port = int(reply.split(b"\r\n")[4])
        return next(server for server in self.servers if server.port == port)

    def is_whole(self) -> bool:
        """All others follow the primary, and the sentinel knows it."""
        primary = self.primary
        for server in self.servers:
            wanted: dict[str, object] = {"role": "master"}
            if server is not primary:
                wanted = {"role": "slave", "master_link_status": "up", "master_port": primary.port}
            if not wanted.items() <= replication(server).items():
                return False
        with self.sentinel.client() as client:
            replicas = client.command("SENTINEL", "REPLICAS", "main")
        linked = replicas.count(b"master-link-status\r\n$2\r\nok")
        return linked == len(self.servers) - 1 and b"down," not in replicas


@contextmanager
def crew(
    folder: Path,
    third: type[ServerProcess] = SteadyServer,
    kinds: Sequence[type[ServerProcess]] | None = None,
) -> Iterator[Crew]:
    with ExitStack() as stack:
        servers: list[ServerProcess] = []
        usual: list[type[ServerProcess]] = [SteadyServer, SteadyServer, third]
        for number, kind in enumerate(kinds or usual):
            home = folder / f"server-{number}"
            home.mkdir(parents=True)
            options = OPTIONS[RedisServer if kind is RedisServer else HoldfastServer]
            if kind is SteadyServer:
                (home / "holdfast.conf").touch()
                options = (*options, "--config", str(home / "holdfast.conf"))
            servers.append(stack.enter_context(kind(home, *options)))
        for server in servers[1:]:
            server.client().command("REPLICAOF", "127.0.0.1", servers[0].port)
        config = folder / "sentinel.conf"
        lines = (
            f"sentinel monitor main 127.0.0.1 {servers[0].port} 1",
            "sentinel down-after-milliseconds main 1000",
            "sentinel failover-timeout main 4000",
            "sentinel parallel-syncs main 2",
        )
        config.write_text("\n".join([*lines, ""]))
        sentinel = stack.enter_context(Sentinel(folder / "sentinel", config))
        with sentinel.client() as client:
            assert client.command("SENTINEL", "DEBUG", *QUICK) == b"+OK\r\n"
        found = Crew(servers, sentinel)
        wait_until(found.is_whole, "the sentinel knows all", 60)
        yield found


class Ledger:
    """Writes numbers as fast as it goes, and knows which of them all replicas have acknowledged.

    One of two is not enough, with Redis servers either: a primary that was stopped goes on before
    the sentinel has told the other replica about the new primary. That replica acknowledges writes
    which the new primary does not have."""

    def __init__(self, found: Crew) -> None:
        self.acknowledged: list[int] = []
        self._replicas = len(found.servers) - 1
        self._is_over = False
        self._sentinels = SentinelOfRedis(  # type: ignore[no-untyped-call]
            [("127.0.0.1", found.sentinel.port)], socket_timeout=2.0
        )
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Ledger":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    def _run(self) -> None:
        client = self._sentinels.master_for(  # type: ignore[no-untyped-call]
            "main", socket_timeout=2.0
        )
        number = 0
        while not self._is_over:
            number += 1
            try:
                pipeline = client.pipeline(transaction=False)
                pipeline.sadd("ledger", number)
                pipeline.execute_command("WAIT", self._replicas, 500)
                if pipeline.execute()[1] >= self._replicas:
                    self.acknowledged.append(number)
            except RedisError:
                pass
        client.close()


def fail_over(found: Crew, ledger: Ledger, how: signal.Signals) -> None:
    """The primary dies or stops while it is written to. It comes back as soon as another server
    takes itself for the primary, so mostly before the sentinel has told the third server."""
    count = len(ledger.acknowledged)
    wait_until(lambda: len(ledger.acknowledged) > count + 20, "writes go on", 60)
    primary = found.primary
    primary.process.send_signal(how)
    others = [server for server in found.servers if server is not primary]
    wait_until(lambda: any(map(leads, others)), "another one is the primary", 60)
    if how is signal.SIGSTOP:
        primary.process.send_signal(signal.SIGCONT)
    else:
        primary.process.wait()
        primary.start()
    wait_until(found.is_whole, "all follow the new one", 60)


def check(found: Crew, ledger: Ledger) -> None:
    assert ledger.acknowledged
    client = found.primary.client()
    reply = client.command("SMISMEMBER", "ledger", *ledger.acknowledged)
    missing = [
        number
        for number, line in zip(ledger.acknowledged, reply.split(b"\r\n")[1:], strict=False)
        if line != b":1"
    ]
    assert missing == []


def test_a_primary_that_dies_is_replaced(tmp_path: Path, rng: random.Random) -> None:
    """The client of redis-py goes on with the new one, and so does ours."""

    async def insist(client: Client) -> None:
        while True:
            try:
                await client.set("k", "after")
            except (ClientError, ServerError):
                await asyncio.sleep(0.02)
            else:
                return

    async def scenario(found: Crew) -> None:
        async with holdfast.connect(found.url) as client:
            await client.set("k", "before")
            with Ledger(found) as ledger:
                await asyncio.to_thread(fail_over, found, ledger, rng.choice(WAYS))
                await insist(client)
            check(found, ledger)
        assert found.primary.client().command("GET", "k") == b"$5\r\nafter\r\n"

    with crew(tmp_path) as found:
        asyncio.run(scenario(found))


@pytest.mark.parametrize("how", WAYS, ids=lambda how: how.name)
def test_no_acknowledged_write_is_lost_with_a_redis_server_among_them(
    how: signal.Signals, tmp_path: Path
) -> None:
    """Either replica may become the primary."""
    with crew(tmp_path, RedisServer) as found:
        with Ledger(found) as ledger:
            fail_over(found, ledger, how)
        check(found, ledger)


@pytest.mark.slow
@pytest.mark.timeout(60 + 60 * FAILOVERS)
def test_no_acknowledged_write_is_lost_in_many_failovers(
    tmp_path: Path, rng: random.Random
) -> None:
    with crew(tmp_path) as found:
        with Ledger(found) as ledger:
            for _ in range(FAILOVERS):
                fail_over(found, ledger, rng.choice(WAYS))
        check(found, ledger)
