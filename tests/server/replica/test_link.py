"""The link to a primary, where the order of two events decides."""

import asyncio
from time import perf_counter_ns

from holdfast.psync.events import Command, Commands
from holdfast.server.replica.link import MOST_WAITING_BYTES, Link
from holdfast.server.replica.position import Position
from holdfast.server.replica.primary_session import PrimarySession
from holdfast.server.replica.replica_role import ReplicaRole
from tests.harness.in_process import InProcess


def test_a_link_that_was_cut_waits_for_no_room() -> None:
    """The disk becomes full after the last bytes were read and before they are handed over."""

    async def scenario() -> None:
        engine = InProcess().engine
        link = Link(engine, ReplicaRole(engine), "127.0.0.1", 1)
        start = Position(b"x" * 40, 0, 0)
        link.session = PrimarySession(engine, link, "there", "here", start, perf_counter_ns)
        link.session.sign_in()
        link.cut("a test")
        late = Commands(b"x" * (MOST_WAITING_BYTES + 1), [Command([b"PING"], 14)])
        await asyncio.wait_for(link._hand_over(late), 10)

    asyncio.run(scenario())
