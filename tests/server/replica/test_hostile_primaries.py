"""A primary that sends damage: the replica says why the link ended, keeps what it had, and needs no
more memory than that takes."""

import random
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.resp import encode2
from tests.harness import HoldfastServer, RawClient, wait_until
from tests.migration.damage import damaged, written
from tests.server.primary.following import info, is_up

pytestmark = [pytest.mark.source_only, pytest.mark.timeout(300)]

ID = b"0123456789abcdef0123456789abcdef01234567"
INCR = encode2([b"INCR", b"n"])
SOUND = 20  # commands before the damage


class Answer(NamedTuple):
    data: bytes
    offset: int = -1
    more: bytes = b""
    endless: bytes = b""  # sent until the replica leaves


class HostilePrimary:
    """Answers a handshake, and then sends what `answer` makes of the words of PSYNC: something, and
    more after the acknowledgement of an offset."""

    def __init__(self, answer: Callable[[list[bytes]], Answer]) -> None:
        self._answer = answer
        self.asked: list[list[bytes]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer, suppress(OSError):
                self._serve(peer)

    def _serve(self, peer: socket.socket) -> None:
        peer.settimeout(5)
        while data := peer.recv(4096):
            if b"PSYNC" not in data:
                peer.sendall(b"+OK\r\n")
                continue
            words = data.split(b"\r\n")[4::2]
            self.asked.append(words)
            answer = self._answer(words)
            peer.sendall(answer.data)
            if answer.more:
                heard = b""
                while b"\r\n%d\r\n" % answer.offset not in heard:
                    if not (data := peer.recv(4096)):
                        return
                    heard += data
                peer.sendall(answer.more)
            while answer.endless:
                peer.sendall(answer.endless)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(4096):  # until the replica has seen the end
                pass
            return


def dial(copy: RawClient, primary: HostilePrimary, times: int) -> None:
    """(After REPLICAOF a replica dials at once, and after a failure in a second.)"""
    count = len(primary.asked)
    copy.command("REPLICAOF", "127.0.0.1", primary.port)
    wait_until(lambda: len(primary.asked) >= count + times, "it has dialed", 120)


@pytest.mark.parametrize("damage", [b"*1\r\n$x\r\n", b"*1\r\n+INCR\r\n", b"INCR n\r\n", b"\0" * 99])
def test_a_damaged_stream_ends_the_link_where_it_is_damaged(
    replica: HoldfastServer, damage: bytes
) -> None:
    """The next link begins exactly there."""
    sound = INCR * SOUND + encode2([b"REPLCONF", b"GETACK", b"*"])
    rdb = empty_rdb()

    def answer(words: list[bytes]) -> Answer:
        if words[0] == b"?":
            head = b"+FULLRESYNC %b 0\r\n$%d\r\n%b" % (ID, len(rdb), rdb)
            return Answer(head + sound, len(sound), damage)
        return Answer(b"+CONTINUE\r\n" + sound, int(words[1]) - 1 + len(sound), damage)

    copy = replica.client()
    with closing(HostilePrimary(answer)) as primary:
        dial(copy, primary, 3)
        copy.command("REPLICAOF", "NO", "ONE")
    offsets = [int(words[1]) for words in primary.asked]
    assert offsets[:3] == [-1, len(sound) + 1, 2 * len(sound) + 1]
    applied = int(copy.command("GET", "n").split(b"\r\n")[1])
    assert applied in (SOUND * len(offsets), SOUND * (len(offsets) - 1))
    assert "is lost: the stream is damaged after offset" in replica.stderr
    assert "Traceback" not in replica.stderr


def empty_rdb() -> bytes:
    return b"REDIS0010\xfa\x09redis-ver\x057.0.0\xfa\x0aredis-bits\xc0\x40\xfe\x00\xff" + bytes(8)


def test_a_snapshot_that_goes_on_behind_its_end_is_refused(replica: HoldfastServer) -> None:
    """Its size is a lie. The process that loads it does not collect the rest."""
    copy = replica.client()
    copy.command("SET", "old", 1)
    rdb = empty_rdb() + bytes(1 << 22)
    head = b"+FULLRESYNC %b 0\r\n$%d\r\n" % (ID, 1 << 40)
    with closing(HostilePrimary(lambda words: Answer(head + rdb))) as primary:
        dial(copy, primary, 1)
        wait_until(lambda: "more follows" in replica.stderr, "it says so")
        copy.command("REPLICAOF", "NO", "ONE")
    assert copy.command("DBSIZE") == b":1\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "argv"),
    [(1, [b"SET", b"k", b"x" * 1_000_000]), (10_000, [b"TIME"])],
    ids=["large", "many"],
)
def test_a_transaction_that_never_ends(
    replica: HoldfastServer, count: int, argv: list[bytes]
) -> None:
    """The replica gives it up, and asks for a snapshot instead."""
    copy = replica.client(timeout_s=60)
    rdb = empty_rdb()
    head = b"+FULLRESYNC %b 0\r\n$%d\r\n%b" % (ID, len(rdb), rdb)
    begin = encode2([b"SET", b"old", b"1"]) + encode2([b"MULTI"])
    answer = Answer(head + begin, endless=encode2([*argv]) * count)
    with closing(HostilePrimary(lambda words: answer)) as primary:
        dial(copy, primary, 3)
        assert copy.command("DBSIZE") == b":1\r\n"
        copy.command("REPLICAOF", "NO", "ONE")
    assert [words[0] for words in primary.asked[:3]] == [b"?"] * 3
    assert replica.stderr.count("takes more than 1,073,741,824 bytes of memory, so the next") >= 2
    assert peak_kb(replica.pid) < 3 << 20
    assert copy.command("SET", "new", 1) == b"+OK\r\n"


def peak_kb(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0])


def some_damage(rng: random.Random, replica: HoldfastServer, count: int) -> None:
    """Snapshots and streams, damaged at random."""
    copy = replica.client()
    copy.command("SET", "old", 1)
    commands = (
        "SELECT 3, MULTI, SET a 1 PXAT 4000000000000, RPUSH list element, EXEC, XADD s 1-1 f v,"
        " REPLCONF GETACK *"
    )
    stream = b"".join(encode2([*words.split()]) for words in commands.encode().split(b","))

    def answer(words: list[bytes]) -> Answer:
        rdb = written(rng, "redis7")
        if rng.random() < 0.5:
            rdb = damaged(rng, rdb)
        behind = bytearray(stream)
        for _ in range(rng.randrange(3)):
            behind[rng.randrange(len(behind))] = rng.randrange(256)
        head = b"+FULLRESYNC %b %d\r\n$%d\r\n" % (ID, rng.randrange(9), len(rdb))
        return Answer(head + rdb + behind)

    with closing(HostilePrimary(answer)) as primary:
        before_kb = resident_kb(replica.pid)
        for _ in range(count):
            dial(copy, primary, 1)
            # Until the link has ended, in this way or that.
            wait_until(lambda: info(copy)["master_sync_in_progress"] == "0", "it has given up")
            assert int(copy.command("DBSIZE")[1:]) >= 0
            copy.command("REPLICAOF", "NO", "ONE")
        assert resident_kb(replica.pid) - before_kb < 64 << 10
    assert not is_up(copy)
    assert copy.command("SET", "new", 1) == b"+OK\r\n"
    assert "Traceback" not in replica.stderr
    assert [path.name for path in Path(replica.db).parent.glob(".*")] == []


def resident_kb(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])


def test_random_damage(rng: random.Random, replica: HoldfastServer) -> None:
    some_damage(rng, replica, 5)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_much_random_damage(rng: random.Random, replica: HoldfastServer) -> None:
    some_damage(rng, replica, 500)
