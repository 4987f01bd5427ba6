"""A way to a server that sentinels know: every connect asks them, so it follows failovers."""

import asyncio
from dataclasses import replace

from holdfast.client.connection import Connection
from holdfast.client.errors import ClientError, ConnectError, ServerError
from holdfast.client.link import Dial, Factory, dialer
from holdfast.client.options import Options, Target
from holdfast.client.single import send_one
from holdfast.clock import Clock


def sentinel_dialer(target: Target, clock: Clock) -> Dial:
    async def dial(factory: Factory) -> object:
        host, port = await find_master(target, clock)
        there = replace(target.options, host=host, port=port, place=None)
        return await dialer(there, clock)(factory)

    return dial


async def find_master(target: Target, clock: Clock) -> tuple[str, int]:
    """The first address that a sentinel gives and at which a master answers.

    All are asked at once: one that is silent must not use up the time of the others.
    """
    problems: list[str] = []

    async def attempt(seed: tuple[str, int]) -> tuple[str, int] | ClientError:
        try:
            return await _ask_one(target, clock, seed)
        except ClientError as error:
            return error

    asking = [asyncio.ensure_future(attempt(seed)) for seed in target.seeds]
    try:
        for answer in asyncio.as_completed(asking):
            found = await answer
            if not isinstance(found, ClientError):
                return found
            problems.append(str(found))
    finally:
        for task in asking:
            task.cancel()
    raise ConnectError(f"no master for {target.service}: {'; '.join(problems)}")


async def _ask_one(target: Target, clock: Clock, seed: tuple[str, int]) -> tuple[str, int]:
    options = replace(target.options, reconnect=False, cache_keys=0, place=None)
    sentinel = replace(
        options,
        host=seed[0],
        port=seed[1],
        db=0,
        protocol=2,
        username=options.sentinel_username,
        password=options.sentinel_password,
    )
    reply = await ask(sentinel, clock, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.service)
    if not isinstance(reply, list):
        why = f": {reply}" if isinstance(reply, ServerError) else ""
        raise ConnectError(f"{sentinel.address} does not know {target.service}{why}")
    there = replace(options, host=reply[0].decode(), port=int(reply[1]))
    role = await ask(there, clock, "ROLE")
    # A sentinel may not have noticed yet that the master is one no more.
    if not isinstance(role, list) or role[0] != b"master":
        raise ConnectError(f"{there.address} is no master")
    return there.host, there.port


async def ask(options: Options, clock: Clock, *args: str) -> object:
    """One question on a connection of its own."""
    connection = Connection(options, clock=clock)
    try:
        await connection.connect()
        return await send_one(connection, args, options.request_timeout_s)
    finally:
        connection.abandon()
