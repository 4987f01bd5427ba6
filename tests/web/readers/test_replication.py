"""Topology and lag of Redis's replication on any server, and the links of active-active servers."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.client import Client, ServerError
from holdfast.web.readers.replication import (
    digest,
    forget,
    pause,
    read_replication,
    resume,
)
from tests.harness import RedisServer, wait_until
from tests.replication.crew import are_linked, cluster
from tests.web.readers.conftest import Play


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """pytest's timeout is the limit."""
    while not await is_so():  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.02)


def test_a_server_alone_says_so(play: Play) -> None:
    async def scenario(client: Client) -> None:
        state = await read_replication(client)
        assert state is not None
        assert (state.role, state.primary, state.followers, state.active) == (
            "master",
            None,
            (),
            None,
        )
        with pytest.raises(ServerError):
            await digest(client)

    play(scenario)


def test_a_primary_and_its_replica_see_each_other(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "primary") as primary, RedisServer(tmp_path / "replica") as replica:

        async def main() -> None:
            async with (
                holdfast.connect(f"redis://127.0.0.1:{primary.port}") as above,
                holdfast.connect(f"redis://127.0.0.1:{replica.port}") as below,
            ):
                await below.exec("REPLICAOF", "127.0.0.1", primary.port, into=Any)

                async def is_up() -> bool:
                    seen, told = await read_replication(below), await read_replication(above)
                    assert seen is not None
                    assert told is not None
                    return (
                        seen.primary is not None
                        and seen.primary.link == "up"
                        and [each.state for each in told.followers] == ["online"]
                    )

                await until(is_up)
                await above.exec("SET", "a", "x" * 1000, into=Any)
                seen, told = await read_replication(below), await read_replication(above)
                assert seen is not None
                assert told is not None
                assert seen.role == "slave"
                assert seen.primary is not None
                assert seen.primary.address == f"127.0.0.1:{primary.port}"
                (follower,) = told.followers
                assert follower.address.endswith(f":{replica.port}")
                assert follower.behind_bytes is not None

        asyncio.run(main())


def test_active_active_servers_are_paused_resumed_and_forgotten(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as servers:
        wait_until(lambda: are_linked(servers), "they are linked")

        async def main() -> None:
            async with (
                holdfast.connect(f"redis://127.0.0.1:{servers[0].port}") as one,
                holdfast.connect(f"redis://127.0.0.1:{servers[1].port}") as two,
            ):
                await one.exec("SADD", "tags", "a", "b", into=Any)

                async def is_same() -> bool:
                    return await digest(one) == await digest(two) != "0"

                await until(is_same)
                state = await read_replication(one)
                assert state is not None
                assert state.active is not None
                assert (state.active.node, state.active.members) == (1, (2,))
                (peer,) = state.active.peers
                assert (peer.node, peer.state, peer.is_paused) == (2, "following", False)

                await pause(one, 2)
                state = await read_replication(one)
                assert state is not None
                assert state.active is not None
                assert state.active.peers[0].is_paused
                await one.exec("SADD", "tags", "c", into=Any)
                assert await digest(one) != await digest(two)
                await resume(one, 2)
                await until(is_same)

                await forget(one, 2)
                state = await read_replication(one)
                assert state is not None
                assert state.active is not None
                assert (state.active.members, state.active.removed) == ((), (2,))

        asyncio.run(main())
