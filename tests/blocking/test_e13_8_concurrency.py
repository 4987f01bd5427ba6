"""E.13.8: many pushers and blockers at once; nothing is delivered twice, nothing is lost, and
the file agrees, also after a restart."""

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import hiredis

from tests.blocking.talk import complaints
from tests.harness import HoldfastServer, encode_command

PUSHERS = BLOCKERS = 50
ELEMENTS = 100_000
TAKEN = 90_000  # the rest has to be found in the lists
KEYS = [f"queue-{n}" for n in range(5)]
PUSHED_AT_ONCE = 40
ASKED_AT_ONCE = 20


async def push(port: int, elements: list[bytes], rng: random.Random) -> None:
    """Push all, several commands to a packet, single and several elements to a command."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    replies = hiredis.Reader()
    while elements:
        chunk, elements = elements[:PUSHED_AT_ONCE], elements[PUSHED_AT_ONCE:]
        sent = 0
        while chunk:
            count = rng.choice((1, 1, 1, 3))
            command = rng.choice(("LPUSH", "RPUSH"))
            writer.write(encode_command(command, rng.choice(KEYS), *chunk[:count]))
            chunk = chunk[count:]
            sent += 1
        while sent:
            if (reply := replies.gets()) is False:
                replies.feed(await reader.read(65536))
                continue
            assert isinstance(reply, int), reply
            sent -= 1
    writer.close()
    await writer.wait_closed()


async def take(port: int, quota: int, rng: random.Random) -> list[bytes]:
    """Pop exactly `quota` elements, with several blocking pops behind each other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    replies = hiredis.Reader()
    taken: list[bytes] = []
    asked = 0
    while len(taken) < quota:
        if asked == len(taken):
            count = min(ASKED_AT_ONCE, quota - asked)
            for _ in range(count):
                keys = rng.sample(KEYS, len(KEYS))  # all, as any of them may stay empty
                writer.write(encode_command(rng.choice(("BLPOP", "BRPOP")), *keys, 0))
            asked += count
        if (reply := replies.gets()) is False:
            replies.feed(await reader.read(65536))
            continue
        assert isinstance(reply, list), reply
        taken.append(reply[1])
    assert replies.gets() is False
    writer.close()
    await writer.wait_closed()
    return taken


async def run(port: int, elements: list[bytes], rng: random.Random) -> list[bytes]:
    takers = [
        asyncio.create_task(take(port, TAKEN // BLOCKERS, random.Random(rng.random())))
        for _ in range(BLOCKERS)
    ]
    share = ELEMENTS // PUSHERS
    async with asyncio.TaskGroup() as group:
        for n in range(PUSHERS):
            own = elements[n * share : (n + 1) * share]
            group.create_task(push(port, own, random.Random(rng.random())))
    return [element for taken in await asyncio.gather(*takers) for element in taken]


def left_in_lists(server: HoldfastServer) -> list[bytes]:
    client = server.client()
    left: list[bytes] = []
    for key in KEYS:
        reader = hiredis.Reader()
        reader.feed(client.command("LRANGE", key, 0, -1))
        elements = reader.gets()
        assert client.command("LLEN", key) == b":%d\r\n" % len(elements)
        left += elements
    return left


def assert_meta_agrees_with_items(file: Path) -> None:
    """`redis_list_meta` has the number of elements, and no other list has any."""
    connection = sqlite3.connect(file)
    try:
        items = dict(
            connection.execute(
                "SELECT key_id, count(*) FROM (SELECT key_id FROM redis_list_items UNION ALL"
                " SELECT key_id FROM redis_list_blocks, json_each(sizes) WHERE value IS NOT NULL)"
                " GROUP BY key_id"
            )
        )
        meta = dict(connection.execute("SELECT key_id, length FROM redis_list_meta WHERE length"))
        keys = {key_id for (key_id,) in connection.execute("SELECT id FROM redis_keys")}
        journal = connection.execute("SELECT count(*) FROM journal").fetchone()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        connection.close()
    assert journal == (0,)
    assert meta == items
    assert set(items) == keys
    assert sum(items.values()) == ELEMENTS - TAKEN


def test_e13_8_no_double_delivery_no_lost_items_and_consistent_meta(
    start_server: Callable[..., HoldfastServer], rng: random.Random
) -> None:
    elements = [b"element-%d" % n for n in range(ELEMENTS)]
    server = start_server()
    taken = asyncio.run(run(server.port, elements, rng))
    assert len(taken) == TAKEN
    everything = Counter(elements)
    assert Counter(taken + left_in_lists(server)) == everything
    assert server.terminate() == 0
    assert_meta_agrees_with_items(Path(server.db))
    server.restart()
    assert Counter(taken + left_in_lists(server)) == everything
    assert complaints(server) == []
