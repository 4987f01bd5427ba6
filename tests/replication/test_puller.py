"""The one who pulls, and lines that break at awkward moments."""

import asyncio

import pytest

from holdfast.client.link import Link
from holdfast.client.replies import Push
from holdfast.replication.messages import PUSH, RECORDS
from holdfast.replication.puller import Puller
from holdfast.replication.replicator import Replicator
from tests.replication.nodes import Node


def test_a_line_that_breaks_while_nobody_waits_is_noticed() -> None:
    """Between two questions of the greeting. Nobody would have answered the second, and the link
    would have been given up only when its patience ended; here time stands still."""

    async def main() -> None:
        node = Node(1)
        puller = Puller(Replicator(node.engine, "test", []), "redis://127.0.0.1:1")
        link = puller._link = Link(puller, None)
        puller.on_lost(link, OSError("cut"))
        with pytest.raises(OSError, match="cut"):
            await puller._ask(link, b"", 1)

    asyncio.run(main())


def test_a_record_wakes_whoever_waits_for_what_it_brings() -> None:
    """At once, and not when the next command comes."""

    async def main() -> None:
        one, two = Node(1), Node(2)
        two("RPUSH", "list", "x")
        (record,) = two.replication.log.since(0)
        one.client.send("BLPOP", "list", 0)
        puller = Puller(Replicator(one.engine, "test", []), "redis://127.0.0.1:1")
        puller._over = asyncio.get_running_loop().create_future()
        puller.on_replies([Push([PUSH, RECORDS, record.data])])
        assert one.client.replies() == [b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n"]
        one.engine.turn.end()
        two.pull(one)
        assert two("EXISTS", "list") == b":0\r\n"

    asyncio.run(main())


def test_what_is_left_of_an_earlier_line_is_not_heard() -> None:
    async def main() -> None:
        node = Node(1)
        puller = Puller(Replicator(node.engine, "test", []), "redis://127.0.0.1:1")
        puller._link = Link(puller, None)
        puller.on_lost(Link(puller, None), OSError("cut"))
        assert puller._lost is None

    asyncio.run(main())
