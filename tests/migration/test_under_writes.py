"""A million keys of all types move while 20,000 writes a second go on. The import is killed at ten
random points, goes on each time, and ends with a cut-over. Nothing is lost, and nothing comes
twice."""

import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast.resp import Reply, encode2
from tests.harness import HoldfastServer, RedisServer, wait_until
from tests.harness.processes import ServerProcess
from tests.migration.contents import connect
from tests.migration.test_live_sources import AT_ONCE, is_followed, start_import

KEYS = int(os.environ.get("HOLDFAST_MIGRATION_KEYS", "1000000"))
WRITES_A_SECOND = 20_000
INTERRUPTIONS = 10
AT_ONCE_WRITES = 200
END = b"end of batch"
# The server must have the writes that came while no import ran.
BACKLOG = ("--repl-backlog-size", "1gb", "--client-output-buffer-limit", "replica 0 0 0")

pytestmark = [pytest.mark.slow, pytest.mark.source_only, pytest.mark.oracle]

FILL = """
local kinds = {
    function(name, n) redis.call('SET', 's' .. name, 'value of ' .. n) end,
    function(name, n) redis.call('HSET', 'h' .. name, 'f1', n, 'f2', 'x') end,
    function(name, n) redis.call('RPUSH', 'l' .. name, n, 'a', 'b') end,
    function(name, n) redis.call('SADD', 'set' .. name, n, 'member') end,
    function(name, n) redis.call('ZADD', 'z' .. name, n, 'm', 0.5, 'other') end,
    function(name, n) redis.call('XADD', 'x' .. name, '1-1', 'f', n) end,
}
for n = ARGV[1], ARGV[2] - 1 do kinds[n % 6 + 1](':' .. n, n) end
"""


def fill(port: int) -> None:
    with connect(port) as client:
        for first in range(0, KEYS, 10_000):
            client.eval(FILL, 0, first, min(KEYS, first + 10_000))


def command(rng: random.Random) -> list[Reply]:
    """None may be left out or run twice: that would leave another value."""
    number = rng.randrange(KEYS)
    name = b":%d" % number
    kinds: tuple[list[Reply], ...] = (
        [b"APPEND", b"s" + name, b"x"],
        [b"HINCRBY", b"h" + name, b"f1", b"1"],
        [b"RPUSH", b"l" + name, b"%d" % number],
        [b"LPOP", b"l" + name],
        [b"SADD", b"set" + name, b"%d" % rng.randrange(1000)],
        [b"ZINCRBY", b"z" + name, b"1.5", b"m"],
        [b"XADD", b"x" + name, b"MAXLEN", b"5", b"*", b"f", b"v"],
        [b"INCR", b"counter:%d" % (number % 1000)],
        [b"DEL", b"s" + name],
        [b"SET", b"s" + name, b"new", b"PXAT", b"4000000000000"],
    )
    return kinds[number % 6] if rng.random() < 0.6 else rng.choice(kinds)


class SteadyWriter:
    """Writes at its rate, until its connection is closed."""

    def __init__(self, port: int, rng: random.Random) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._batches = [
            b"".join(encode2(command(rng)) for _ in range(AT_ONCE_WRITES)) + encode2([b"ECHO", END])
            for _ in range(500)
        ]
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.written = 0
        self.began_s = time.monotonic()

    def __enter__(self) -> "SteadyWriter":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._socket.shutdown(socket.SHUT_RDWR)  # it may wait for an answer
        self._thread.join()
        self._socket.close()

    @property
    def rate(self) -> float:
        return self.written / (time.monotonic() - self.began_s)

    def _run(self) -> None:
        for batch in itertools.cycle(self._batches):
            ahead_s = self.written / WRITES_A_SECOND - (time.monotonic() - self.began_s)
            if self._ends.wait(max(0.0, ahead_s)) or not self._write(batch):
                return
            self.written += AT_ONCE_WRITES

    def _write(self, batch: bytes) -> bool:
        """Whether the server has answered."""
        try:
            self._socket.sendall(batch)
            said = b""
            while not said.endswith(END + b"\r\n"):
                data = self._socket.recv(65536)
                if not data:
                    return False
                said = said[-len(END) - 2 :] + data
        except OSError:
            return False
        return True


def until_some_are_written(writer: SteadyWriter, count: int) -> None:
    goal = writer.written + count
    wait_until(lambda: writer.written >= goal, "writes go on", 120)


def interrupt(
    old: ServerProcess, writer: SteadyWriter, db: Path, rng: random.Random, *, in_stream: bool
) -> None:
    """In the snapshot, or after it: within the first five seconds of either."""
    process = start_import(f"redis://127.0.0.1:{old.port}", db, "--follow")
    try:
        if in_stream:
            wait_until(lambda: is_followed(old.port), "the import follows", 600)
        until_some_are_written(writer, rng.randrange(5 * WRITES_A_SECOND))
    finally:
        process.kill()
        process.communicate()
    assert not db.exists()


def is_close(port: int) -> bool:
    """The import is about a second behind: so often it says where it is."""
    with connect(port) as client:
        found = client.info("replication")
    replica = found.get("slave0")
    if replica is None or replica["state"] != "online":
        return False
    return bool(found["master_repl_offset"] - replica["offset"] < WRITES_A_SECOND * 60)


def cut_over(old: ServerProcess, process: subprocess.Popen[str], ours: ServerProcess) -> float:
    """How long writers wait, in seconds."""
    with connect(old.port) as client:
        began_s = time.monotonic()
        client.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    ours.start()
    with connect(ours.port) as client:
        client.set("cut-over", 1)
        took_s = time.monotonic() - began_s
        client.delete("cut-over")
    return took_s


@pytest.mark.timeout(3600)
def test_nothing_is_lost_in_a_migration_that_is_interrupted(
    tmp_path: Path, rng: random.Random, capsys: pytest.CaptureFixture[str]
) -> None:
    db = tmp_path / "app.db"
    ours = HoldfastServer(tmp_path / "new", db=db)
    with RedisServer(tmp_path / "old", *AT_ONCE, *BACKLOG) as old:
        fill(old.port)
        with SteadyWriter(old.port, rng) as writer:
            for number in range(INTERRUPTIONS):
                interrupt(old, writer, db, rng, in_stream=number >= INTERRUPTIONS // 2)
            process = start_import(f"redis://127.0.0.1:{old.port}", db, "--follow")
            try:
                wait_until(lambda: is_close(old.port), "the import has caught up", 600)
                rate = writer.rate
                took_s = cut_over(old, process, ours)
            finally:
                process.kill()
        with capsys.disabled():
            print(f"\n{KEYS:,} keys, {rate:,.0f} writes/s, cut-over {took_s:.2f} s")  # noqa: T201 - the figure
        with ours, connect(old.port) as client:
            assert client.info("stats")["sync_partial_ok"] >= INTERRUPTIONS // 2
            argv = [sys.executable, "-m", "holdfast", "compare", f"redis://127.0.0.1:{old.port}"]
            compared = subprocess.run([*argv, str(db)], capture_output=True, text=True)
            assert compared.stdout.endswith("no differences\n"), compared
