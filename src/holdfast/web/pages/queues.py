"""Queues of all libraries, one queue, and its jobs. Bodies of jobs are shown as text, and never
loaded.
"""

from collections.abc import Callable

from starlette.responses import Response

from holdfast.client.protocol.request import as_bytes
from holdfast.web.readers.queues import LIBRARIES, Measured, QueueId, QueueReader, Role
from holdfast.web.visit import BadRequestError, Visit

MOST_SHOWN = 200
PAGE_JOBS = 50
FRESH_S = 2.0  # an answer for another tab may be used so long
ORDERS: dict[str, Callable[[Measured], float]] = {
    "waiting": lambda each: -(each.state.waiting or 0),
    "failed": lambda each: -(each.state.failed or 0),
    "oldest": lambda each: -(each.state.oldest_ms or 0),
    "growth": lambda each: -(each.flow.net_per_s if each.flow else 0.0),
    "name": lambda each: 0,
}


async def board(visit: Visit) -> Response:
    reader = await visit.reader(QueueReader)
    view = await visit.recent("queues", FRESH_S, lambda: reader.look(visit.pace))
    wanted, library = visit.query.get("pattern", ""), visit.query.get("library", "")
    order = visit.query.get("sort", "waiting")
    if order not in ORDERS:
        order = "waiting"
    rows = [each for each in view.queues if _matches(each, wanted, library)]
    rows.sort(key=lambda each: (ORDERS[order](each), each.state.id))
    return visit.render(
        "queues.html",
        rows=rows[:MOST_SHOWN],
        total=len(rows),
        known=len(view.queues),
        view=view,
        pattern=wanted,
        library=library,
        libraries=sorted({each.state.id.library for each in view.queues}),
        order=order,
        orders=list(ORDERS),
    )


def _matches(each: Measured, wanted: str, library: str) -> bool:
    id = each.state.id
    return (not library or id.library == library) and wanted.lower() in id.text.lower()


async def show(visit: Visit) -> Response:
    id = _id(visit)
    reader = await visit.reader(QueueReader)
    found = await visit.recent(("queue", id), FRESH_S, lambda: reader.queue(id))
    if found is None:
        return visit.render("queue_gone.html", 404, id=id)
    states = [each.state for each in found.state.counts]
    state = visit.query.get("state", "")
    if state not in states:
        state = _first_state(found)
    first = visit.number("first", 0)
    page = None
    if state:
        page = await visit.recent(
            ("jobs", id, state, first),
            FRESH_S,
            lambda: reader.jobs(id, state, first, PAGE_JOBS),
        )
    count = next((each.jobs for each in found.state.counts if each.state == state), None)
    return visit.render(
        "queue.html",
        found=found,
        id=id,
        state=state,
        page=page,
        first=first,
        count=count,
        page_jobs=PAGE_JOBS,
    )


def _first_state(found: Measured) -> str:
    """The state that most users need: waiting jobs, or else the first state that has jobs."""
    counts = found.state.counts
    for role in (Role.WAITING, None):
        for each in counts:
            if each.jobs and (role is None or each.role is role):
                return each.state
    return counts[0].state if counts else ""


def _id(visit: Visit) -> QueueId:
    library, name = visit.query.get("library", ""), visit.query.get("name", "")
    if library not in LIBRARIES or not name:
        raise BadRequestError("Which queue? The address names none.")
    return QueueId(library, as_bytes(name), as_bytes(visit.query.get("prefix", "")))
