"""Mishaps of servers under load: they are frozen, copied, cloned, restored, and another server
takes their node id. None of them loses an acknowledged write."""

import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

from holdfast.store.backup import backup
from tests.harness import HoldfastServer, RawClient, wait_until
from tests.replication.crew import ask

# Ten seconds after another server with one's node id was last heard of the others take it for gone.
SECOND_IS_OVER_S = 15.0
PAUSE_MS = 60_000
COPY = "yesterday.db"


def freeze(server: HoldfastServer, rng: random.Random) -> None:
    """It stands still, and its connections stay: often for less than its peers wait, and sometimes
    for longer."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        time.sleep(rng.choice((0.3, 1.0, 3.0, 12.0)))
    finally:
        os.kill(server.pid, signal.SIGCONT)


def put_a_copy_in_place_of(server: HoldfastServer, rng: random.Random) -> None:
    """The copy has all data of the file. Without the files beside it, it is recognised as a copy;
    so is one made by `holdfast backup`."""
    server.terminate()
    path = Path(server.db)
    copy = path.with_name("copy.db")
    if rng.random() < 0.5:
        backup(path, copy)
    else:
        shutil.copy(path, copy)
        path.with_name(f"{path.name}-life").unlink()
    path.unlink()
    copy.rename(path)
    server.start()


def put_yesterday_in_place_of(
    server: HoldfastServer, others: list[HoldfastServer], rng: random.Random
) -> str:
    """Restore a backup that is older than the file; without one, make it now. Writes since the
    backup must exist on another server. So clients are paused until they do, and if that takes too
    long nothing is done. Returns what was done."""
    path = Path(server.db)
    copy = path.with_name(COPY)
    if not copy.exists():
        backup(path, copy)
        return "backup"
    with RawClient.connect(server.port, 20) as client:
        client.command("CLIENT", "PAUSE", PAUSE_MS, "WRITE")
        try:
            wait_until(lambda: _is_known(server, others), "the others have all of it", 5)
        except AssertionError:
            client.command("CLIENT", "UNPAUSE")
            return "no restore"
    server.kill()
    for end in ("", "-wal", "-shm", "-mark", *rng.choice(((), ("-life",)))):
        path.with_name(path.name + end).unlink(missing_ok=True)
    copy.rename(path)
    server.start()
    return "restore"


def _is_known(server: HoldfastServer, others: list[HoldfastServer]) -> bool:
    """Whether one of the peers has all writes of the server. A vector does not include the writes
    of this moment, so it is asked for first."""
    wanted = vector_of(server)
    return any(
        all(seq <= vector.get(replica, 0) for replica, seq in wanted.items())
        for vector in map(vector_of, others)
    )


def vector_of(server: HoldfastServer) -> dict[int, int]:
    info = ask(server, "ACTIVE", "INFO")
    words = info.partition(b"vector\r\n")[2].split(b"\r\n")[1]
    return {int(replica): int(seq) for replica, seq in re.findall(rb"(\d+):(\d+)", words)}


def run_a_second(server: HoldfastServer, rng: random.Random, *, is_clone: bool) -> None:
    """Beside it for a while, with the same node id: on a clone of its files, or on a new one. No
    client knows of it."""
    folder = server.folder.with_name(f"second-{server.folder.name}")
    if is_clone:
        server.terminate()
        shutil.copytree(server.folder, folder)
        server.start()
    args = [
        arg if ".sock" not in arg or "unix://" in arg else f"{arg}-second" for arg in server.args
    ]
    with HoldfastServer(folder, *args):
        time.sleep(rng.uniform(0.3, 2.0))
    shutil.rmtree(folder)
