"""All that a primary sends, damaged: one clear error, or another command; and no more memory than
bytes came."""

import random
import tracemalloc

import pytest

from holdfast.psync.events import Commands, PsyncError, SnapshotPiece
from holdfast.psync.follower import Follower
from holdfast.psync.handshake import Introduction
from holdfast.resp import encode2

ID = b"0123456789abcdef0123456789abcdef01234567"
MOST_BYTES = 1 << 20  # for links of less than 3 kB
PARTS = (b"\r\n", b"\n", b"$", b"*", b"+", b"-", b":", b"0", b"9", b"$EOF:", b"\0", b"\xff", ID)


def link(rng: random.Random) -> tuple[Introduction, bytes]:
    """What a replica says, and all that the primary answers."""
    stream = b"".join(
        encode2([b"SET", rng.randbytes(rng.randrange(9)), b"v" * rng.choice((0, 1, 10, 300))])
        for _ in range(rng.randrange(5))
    )
    answers = b"+PONG\r\n+OK\r\n+OK\r\n"  # to PING, capa and version
    if rng.random() < 0.5:
        return Introduction(replication_id=ID, offset=7), answers + b"+CONTINUE\r\n" + stream
    rdb = rng.randbytes(rng.choice((0, 1, 500)))
    mark = rng.randbytes(20).hex().encode()
    size, end = b"$%d\r\n" % len(rdb), b""
    if rng.random() < 0.5:
        size, end = b"$EOF:%b\r\n" % mark, mark
    head = b"\n+FULLRESYNC %b %d\r\n\n" % (ID, rng.randrange(10**6))
    return Introduction(), answers + head + size + rdb + end + stream


def damaged(rng: random.Random, data: bytes) -> bytes:
    body = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(body)) if body else 0
        match rng.randrange(5):
            case 0 if body:
                body[at] ^= 1 << rng.randrange(8)
            case 1:
                del body[at : at + rng.choice((1, 1, 5, 40))]
            case 2:
                body[at:at] = rng.choice(PARTS) * rng.choice((1, 1, 2, 50))
            case 3:
                body[at:at] = rng.randbytes(rng.choice((1, 5, 40)))
            case _:
                body[at:at] = b"%d" % rng.choice((0, 1, 1 << 29, (1 << 31) - 1, 1 << 33, 1 << 64))
    return bytes(body)


def follow(rng: random.Random, introduction: Introduction, data: bytes) -> str:
    """The error, if there is one."""
    follower, given, at = Follower(introduction), 0, 0
    try:
        while at < len(data):
            size = rng.choice((1, 7, 100, 10_000))
            follower.to_send()
            for event in follower.receive(data[at : at + size]):
                if isinstance(event, SnapshotPiece | Commands):
                    given += len(event.data)
            at += size
    except PsyncError as error:
        sentence = str(error)
        assert sentence
        assert "\n" not in sentence
        assert len(sentence) < 400
        return sentence
    finally:
        assert given <= len(data)
    return ""


def some_links(rng: random.Random, count: int) -> set[str]:
    errors = set()
    for _ in range(count):
        introduction, data = link(rng)
        assert not follow(rng, introduction, data), "without damage"
        errors.add(follow(rng, introduction, damaged(rng, data))[:30])
    return errors


def test_damaged_links(rng: random.Random) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        errors = some_links(rng, 1000)
        assert tracemalloc.get_traced_memory()[1] - before < MOST_BYTES
    finally:
        tracemalloc.stop()
    assert len(errors) > 5, "the damage is of many kinds"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_damaged_links(rng: random.Random) -> None:
    some_links(rng, 100_000)
