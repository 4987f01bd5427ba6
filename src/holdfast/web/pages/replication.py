"""Replication: a primary, its replicas and their lag, and the links of active-active servers."""

import asyncio
from typing import NamedTuple

from starlette.responses import Response

from holdfast.errors import HoldfastError
from holdfast.web.readers.replication import (
    ReplicationState,
    digest,
    forget,
    pause,
    read_replication,
    resume,
)
from holdfast.web.topology import draw, has_others
from holdfast.web.visit import BadRequestError, Visit

FRESH_S = 1.0  # an answer for another tab may be used so long
DIGEST_S = 60.0  # the longest wait for the digest of a server


class DigestRow(NamedTuple):
    server: str
    digest: str = ""
    problem: str = ""


async def show(visit: Visit) -> Response:
    client = await visit.client()
    return _page(
        visit, await visit.recent("replication", FRESH_S, lambda: read_replication(client))
    )


def _page(
    visit: Visit, state: ReplicationState | None, digests: list[DigestRow] | None = None
) -> Response:
    drawing = draw(state, visit.dashboard.address) if state and has_others(state) else None
    return visit.render("replication.html", state=state, drawing=drawing, digests=digests)


async def compare(visit: Visit) -> Response:
    """The digests of this server and its peers, side by side. Each server is asked with the login
    of the user. So this is an action: viewing a page sends no password to other servers."""
    client, login = await visit.client(), visit.session.login
    state = await read_replication(client)
    active = None if state is None else state.active
    if active is None or login is None:
        raise BadRequestError("This server is not active-active: it has no digest.")
    peers = [(f"node {each.node or '?'}, {each.address}", each.address) for each in active.peers]

    async def of_peer(name: str, address: str) -> DigestRow:
        other = login.elsewhere(address, DIGEST_S)
        try:
            await other.connect()
            return DigestRow(name, await digest(other))
        except (HoldfastError, ValueError) as error:
            return DigestRow(name, problem=str(error.__cause__ or error))
        finally:
            await other.close()

    async def of_this() -> DigestRow:
        name = f"node {active.node}, this server"
        try:
            return DigestRow(name, await digest(client))
        except HoldfastError as error:
            return DigestRow(name, problem=str(error))

    async with visit.audited("compare digests", ", ".join(address for _, address in peers)):
        found = await asyncio.gather(of_this(), *(of_peer(*each) for each in peers))
    return _page(visit, state, list(found))


async def pause_link(visit: Visit) -> Response:
    node = _node(visit)
    async with visit.audited("pause link", f"node {node}"):
        await pause(await visit.client(), node)
    visit.say(f"The link to node {node} is cut until it is resumed. Writes are still taken here.")
    return visit.go("/replication")


async def resume_link(visit: Visit) -> Response:
    node = _node(visit)
    async with visit.audited("resume link", f"node {node}"):
        await resume(await visit.client(), node)
    visit.say(f"The link to node {node} is resumed.")
    return visit.go("/replication")


async def forget_node(visit: Visit) -> Response:
    node = _node(visit)
    async with visit.audited("forget node", f"node {node}"):
        await forget(await visit.client(), node)
    visit.say(f"Node {node} is forgotten: all members refuse it from now on.")
    return visit.go("/replication")


def _node(visit: Visit) -> int:
    text = visit.form.get("node", "")
    if not text.isascii() or not text.isdigit() or len(text) > 3 or not 0 < int(text) < 256:
        raise BadRequestError("Which node? A node has a number from 1 to 255.")
    return int(text)
