"""The one who pulls, and lines that break at awkward moments."""

import asyncio

import pytest

from holdfast.client.link import Link
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


def test_what_is_left_of_an_earlier_line_is_not_heard() -> None:
    async def main() -> None:
        node = Node(1)
        puller = Puller(Replicator(node.engine, "test", []), "redis://127.0.0.1:1")
        puller._link = Link(puller, None)
        puller.on_lost(Link(puller, None), OSError("cut"))
        assert puller._lost is None

    asyncio.run(main())
