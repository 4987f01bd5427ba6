"""This server, the servers that it follows, and the servers that follow it, as SVG. No I/O."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from markupsafe import Markup

from holdfast.web.readers.replication import ReplicationState

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 210, 46, 90, 14, 10
_MOST_NAME = 23
_MOST_DRAWN = 20  # servers; the tables have all


class Server(NamedTuple):
    name: str
    more: str
    is_linked: bool = True


def draw(state: ReplicationState, own_address: str) -> Markup:
    """From left to right, in the direction of changes: the primary, this server, its replicas and
    peers."""
    before = []
    if state.primary is not None:
        is_up = state.primary.link == "up"
        before.append(Server(state.primary.address, f"primary, link {state.primary.link}", is_up))
    after = [
        Server(each.address, f"replica, {each.state}", each.state in ("online", "up"))
        for each in state.followers
    ]
    active = state.active
    if active is not None:
        after += [
            Server(
                each.address, f"node {each.node or '?'}, {each.state}", each.state == "following"
            )
            for each in active.peers
        ]
    here = Server(
        own_address, "this server" if active is None else f"node {active.node}, this server"
    )
    columns = [before[:_MOST_DRAWN], [here], after[:_MOST_DRAWN]]
    columns = [column for column in columns if column]
    rows = max(map(len, columns))
    width = 2 * MARGIN + len(columns) * WIDTH + (len(columns) - 1) * GAP_X
    height = 2 * MARGIN + rows * HEIGHT + (rows - 1) * GAP_Y
    boxes, lines = [], []
    for n, column in enumerate(columns):
        for m, server in enumerate(column):
            x, y = _place(n, m, len(column), height)
            boxes.append(_box(server, x, y, server is here))
            if server is not here:
                lines.append(_line(server, x, y, columns.index([here]) < n, height))
    label = f"This server and {len(before) + len(after)} others"
    return Markup(
        f'<svg class="jobs" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label="{label}">{"".join(lines)}{"".join(boxes)}</svg>'
    )


def _place(column: int, row: int, rows: int, height: int) -> tuple[int, int]:
    top = (height - rows * HEIGHT - (rows - 1) * GAP_Y) // 2
    return MARGIN + column * (WIDTH + GAP_X), top + row * (HEIGHT + GAP_Y)


def _line(server: Server, x: int, y: int, is_after: bool, height: int) -> str:
    """A line between a server and this one, which is in the middle of the next column."""
    own, its = height // 2, y + HEIGHT // 2
    start, end = (x - GAP_X, x) if is_after else (x + WIDTH, x + WIDTH + GAP_X)
    from_y, to_y = (own, its) if is_after else (its, own)
    bend = (start + end) // 2
    kind = "edge now" if server.is_linked else "edge cut"
    return (
        f'<path class="{kind}" d="M{start} {from_y} C{bend} {from_y} {bend} {to_y} {end} {to_y}"/>'
    )


def _box(server: Server, x: int, y: int, is_own: bool) -> str:
    name, kind = server.name, "job runs" if is_own else "job" if server.is_linked else "job waits"
    if len(name) > _MOST_NAME:
        name = f"…{name[1 - _MOST_NAME :]}"
    return (
        f'<g class="{kind}"><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="7"/>'
        f'<text x="{x + 10}" y="{y + 20}">{escape(name)}</text>'
        f'<text class="more" x="{x + 10}" y="{y + 36}">{escape(server.more)}</text></g>'
    )


def has_others(state: ReplicationState) -> bool:
    others: Sequence[object] = state.active.peers if state.active is not None else ()
    return bool(state.primary or state.followers or others)
