"""A way to a server that sentinels know: every connect asks them, so it follows failovers."""

import asyncio
from dataclasses import replace

from holdfast.client.connection import Connection
from holdfast.client.errors import ClientError, ConnectError
from holdfast.client.link import Dial, Factory, dialer
from holdfast.client.options import Options, Target
from holdfast.client.single import send_one
from holdfast.clock import Clock


def sentinel_dialer(target: Target, clock: Clock) -> Dial:
    async def dial(factory: Factory) -> object:
        host, port = await find_master(target, clock)
        return await dialer(replace(target.options, host=host, port=port), clock)(factory)

    return dial


async def find_master(target: Target, clock: Clock) -> tuple[str, int]:
    """The address that the first sentinel who knows one gives, if a master answers there."""
    problems: list[str] = []
    for host, port in target.seeds:
        options = Options(host=host, port=port, reconnect=False, protocol=2, tls=target.options.tls)
        try:
            reply = await ask(options, clock, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", target.service)
            if isinstance(reply, list):
                address = reply[0].decode(), int(reply[1])
                there = replace(target.options, host=address[0], port=address[1], reconnect=False)
                role = await ask(there, clock, "ROLE")
                # A sentinel may not have noticed yet that the master is one no more.
                if isinstance(role, list) and role[0] == b"master":
                    return address
                problems.append(f"{address[0]}:{address[1]} is no master")
            else:
                problems.append(f"{host}:{port} does not know {target.service}")
        except ClientError as error:
            problems.append(str(error))
    raise ConnectError(f"no master for {target.service}: {'; '.join(problems)}")


async def ask(options: Options, clock: Clock, *args: str) -> object:
    """One question on a connection of its own."""
    connection = Connection(options, clock=clock)
    try:
        await connection.connect()
        return await send_one(connection, args, options.request_timeout_s)
    finally:
        await asyncio.shield(connection.close(0))
