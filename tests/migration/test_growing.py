"""The walk of docs/guide-growing.md: in from a Redis that is written to, with a cut-over, and on to
a cluster. A ledger says which writes were acknowledged."""

import random
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.client.topology.slots import slot_of
from tests.harness import HoldfastServer, RedisServer, wait_until
from tests.harness.cluster import start_cluster
from tests.migration.contents import connect, contents, fill, without_seen
from tests.migration.test_live_sources import AT_ONCE, is_followed, start_import
from tests.migration.test_real_servers import holdfast
from tests.migration.writes import Writer

pytestmark = [pytest.mark.source_only, pytest.mark.timeout(240)]


def test_in_from_redis_and_on_to_a_cluster(tmp_path: Path, rng: random.Random) -> None:
    with ExitStack() as stack:
        old = stack.enter_context(RedisServer(tmp_path / "old", *AT_ONCE))
        fill(old.port, rng)
        writer = Writer(old.port, rng)
        stack.callback(writer.close)
        ledger = stack.enter_context(connect(old.port))
        db = tmp_path / "app.db"
        process = stack.enter_context(start_import(f"redis://127.0.0.1:{old.port}", db, "--follow"))
        stack.callback(process.kill)
        acknowledged = 0
        while not is_followed(old.port):  # the application goes on
            writer.run(50)
            acknowledged = ledger.incr("ledger")
        for _ in range(20):
            writer.run(50)
            acknowledged = ledger.incr("ledger")
        # The cut-over.
        ledger.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        ours = stack.enter_context(HoldfastServer(tmp_path / "new", db=db))
        with connect(ours.port) as client:
            assert client.get("ledger") == b"%d" % acknowledged
        assert without_seen(contents(ours.port)) == without_seen(contents(old.port))
        compared = holdfast("compare", url(old), url(ours))
        assert compared.stdout.endswith("no differences\n")
        # On to a cluster, which has one database.
        with connect(ours.port) as client:
            assert client.incr("ledger") == acknowledged + 1
            for number in (3, 5, 15):
                client.execute_command("SELECT", number)
                client.flushdb()
        nodes = start_cluster(stack, tmp_path / "cluster")
        target = nodes.url.replace("redis+cluster", "redis-cluster")
        holdfast("export", "--db", url(ours), target)
        assert holdfast("compare", url(ours), target).stdout.endswith("no differences\n")
        with connect(nodes.servers[nodes.owner(slot_of("ledger"))].port) as client:
            assert client.get("ledger") == b"%d" % (acknowledged + 1)


def url(server: RedisServer | HoldfastServer) -> str:
    return f"redis://127.0.0.1:{server.port}"


def test_from_one_server_to_another_and_to_a_file(tmp_path: Path, rng: random.Random) -> None:
    with (
        RedisServer(tmp_path / "one", *AT_ONCE) as one,
        RedisServer(tmp_path / "two") as two,
    ):
        fill(one.port, rng)
        dump = tmp_path / "dump.rdb"
        holdfast("export", "--db", url(one), url(two))
        assert contents(two.port) == contents(one.port)
        said = holdfast("export", "--db", url(one), dump).stdout
        assert said.startswith(f"127.0.0.1:{one.port}: 36 keys ")
        assert holdfast("compare", dump, url(two)).returncode == 0
        again = subprocess.run(
            ["redis-check-rdb", dump], capture_output=True, text=True, check=False
        )
        assert again.returncode == 0, again.stdout
    wait_until(lambda: not one.running, "it has ended")
