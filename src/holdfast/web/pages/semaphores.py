"""Semaphores and locks: holders, waiters, and the release by force."""

from collections.abc import Callable

from markupsafe import Markup
from starlette.responses import Response

from holdfast.client.protocol.request import text_of
from holdfast.figures.units import count
from holdfast.figures.view import shown
from holdfast.web.charts import Line, chart
from holdfast.web.history.rollup import RANGES, Point
from holdfast.web.names import from_hidden, in_url
from holdfast.web.readers.semaphores import Contention, SemaphoreId, SemaphoreReader
from holdfast.web.visit import BadRequestError, Visit

FRESH_S = 1.0  # an answer for another tab may be used so long


async def board(visit: Visit) -> Response:
    reader = await visit.reader(SemaphoreReader)
    rows = await visit.recent("semaphores", FRESH_S, lambda: reader.look(visit.pace))
    return visit.render("semaphores.html", rows=rows)


async def show(visit: Visit) -> Response:
    id = _id(visit.query)
    reader = await visit.reader(SemaphoreReader)
    state = await visit.recent(("semaphore", id), FRESH_S, lambda: reader.read(id))
    status = 200 if state.limit is not None or state.taken or state.waiting else 404
    return visit.render("semaphore.html", status, id=id, state=state, drawing=_drawing(reader, id))


def _drawing(reader: SemaphoreReader, id: SemaphoreId) -> Markup | None:
    """The history of contention; None if there is none. The times are those of the server's
    clock."""
    seen = {each.at_s: each for each in reader.contention(id)}
    if not seen:
        return None
    span, last_s = RANGES["hour"], max(seen)
    moments = range(last_s - span.seconds + span.step_s, last_s + 1, span.step_s)

    def line(label: str, value: Callable[[Contention], int]) -> Line:
        known = {at_s: value(each) for at_s, each in seen.items()}
        points = [Point(at, known[at], known[at]) if at in known else None for at in moments]
        return Line(label, points)

    lines = [line("taken", lambda each: each.taken), line("waiting", lambda each: each.waiting)]
    return chart("Contention", lines, span, count, last_s)


async def release(visit: Visit) -> Response:
    fields = {
        name: text_of(from_hidden(visit.form.get(name, ""))) for name in ("namespace", "name", "id")
    }
    id = _id({**fields, "tag": visit.form.get("tag", "")})
    if not fields["id"]:
        raise BadRequestError("Which holder? The form names none.")
    reader = await visit.reader(SemaphoreReader)
    detail = f"{id.namespace} {id.name} {fields['id']}"
    async with visit.audited(
        "release slot by force", shown(detail.encode("utf-8", "surrogateescape"))
    ):
        had = await reader.force_release(id, fields["id"])
    visit.say(
        "The slot was taken from its holder, which learns it with its next heartbeat."
        if had
        else "It held no slot. If it was waiting, it was removed from the queue."
    )
    tag = "yes" if id.hash_tag else "no"
    where = f"namespace={in_url(id.namespace)}&name={in_url(id.name)}&tag={tag}"
    return visit.go(f"/semaphores/show?db={visit.db}&{where}")


def _id(fields: dict[str, str]) -> SemaphoreId:
    namespace, name = fields.get("namespace", ""), fields.get("name", "")
    hash_tag = fields.get("tag", "yes") != "no"
    if not name or (hash_tag and name.startswith("}")):
        raise BadRequestError("Which semaphore? The address names none.")
    return SemaphoreId(namespace, name, hash_tag)
