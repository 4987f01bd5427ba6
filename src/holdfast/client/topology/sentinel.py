"""A server that sentinels know. Each connect asks them, so the client follows failovers."""

import asyncio
from dataclasses import replace

from holdfast.client.errors import ClientError, ConnectError, ServerError
from holdfast.client.topology.single import ask
from holdfast.client.transport.deadlines import wait_for
from holdfast.client.transport.link import Dial, Factory, dialer
from holdfast.client.transport.options import Address, Target, address_of
from holdfast.clock import Clock

_ASK_AGAIN_S = 1.0


def sentinel_dialer(target: Target, clock: Clock) -> Dial:
    async def dial(factory: Factory) -> object:
        host, port = await find_master(target, clock)
        there = replace(target.options, host=host, port=port, place=None)
        return await dialer(there, clock)(factory)

    return dial


async def find_master(target: Target, clock: Clock) -> Address:
    """The first address that a sentinel gives and at which a master answers.

    All are asked at once, because a silent sentinel must not use up the time of the others.
    """
    problems: list[str] = []

    async def attempt(seed: Address) -> Address | ClientError:
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


async def _ask_one(target: Target, clock: Clock, seed: Address) -> Address:
    """Ask again while the named master does not answer: the sentinel may soon name another."""
    named: Address | None = None
    checking: asyncio.Task[None] | None = None
    try:
        while checking is None or not checking.done():
            latest = await _name(target, clock, seed)
            if checking is None or latest != named:
                if checking is not None:
                    checking.cancel()
                named = latest
                checking = asyncio.create_task(_check(target, clock, named))
                checking.add_done_callback(lambda done: done.cancelled() or done.exception())
            await wait_for(clock, checking, _ASK_AGAIN_S)
        checking.result()
    finally:
        if checking is not None:
            checking.cancel()
    assert named is not None
    return named


async def _name(target: Target, clock: Clock, seed: Address) -> Address:
    """The address of the master, as one sentinel gives it."""
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
    address = address_of(*reply) if len(reply) == 2 else None
    if address is None:
        raise ConnectError(f"{sentinel.address} named no address: {reply!r:.80}")
    return address


async def _check(target: Target, clock: Clock, master: Address) -> None:
    """Raises ClientError unless this is a master."""
    options = replace(target.options, reconnect=False, cache_keys=0, place=None)
    there = replace(options, host=master[0], port=master[1])
    role = await ask(there, clock, "ROLE")
    # The sentinel may not have noticed yet that the server is no longer a master.
    if not isinstance(role, list) or role[:1] != [b"master"]:
        raise ConnectError(f"{there.address} is no master")
