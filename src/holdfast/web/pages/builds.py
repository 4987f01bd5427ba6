"""Build queues: board, one build, the graph of jobs, replay, search, and the actions of a user."""

import asyncio

from starlette.responses import Response

from holdfast.builds import BadBuildError, BuildQueue, State
from holdfast.web.finished_builds import finished_builds
from holdfast.web.job_drawing import draw
from holdfast.web.readers.builds import BuildReader, for_span, why
from holdfast.web.visit import BadRequestError, Visit

WAITING = (State.QUEUED, State.BLOCKED, State.FROZEN, State.READY)
ENDED = (State.SUCCESS, State.FAILURE, State.ABORTED, State.COLLAPSED)
PAGE = 50
FRESH_S = 1.0  # an answer for another tab may be used so long
CHANGES = ("EVALSHA", "HSET", "ZADD")  # the commands that an action needs
# How long a job can be frozen, in seconds.
FREEZES = {"1 hour": 3600, "8 hours": 28_800, "1 day": 86_400, "1 week": 604_800, "until thawed": 0}
INDEX_WAIT_S = 0.5  # for the index of a small queue, so that the first search finds all builds


async def board(visit: Visit) -> Response:
    reader = await _reader(visit)
    names = await visit.recent("build queues", FRESH_S, lambda: reader.find(visit.pace))
    name = visit.query.get("queue", "") or (names[0] if names else "")
    if not name:
        return visit.render("builds.html", names=[], name="", board=None)
    _checked(reader, name)
    return visit.render(
        "builds.html",
        names=names,
        name=name,
        board=await visit.recent(("board", name), FRESH_S, lambda: reader.board(name)),
        why=why,
        columns=(*WAITING, State.RUNNING, *ENDED),
        for_span=for_span,
        may_act=visit.may(*CHANGES),
    )


async def show(visit: Visit) -> Response:
    reader, name = await _queue(visit, visit.query)
    build = _build(visit.query)
    story = await reader.story(name, build)
    if story is None:
        return visit.render("build.html", 404, name=name, build=build, story=None)
    return visit.render(
        "build.html",
        name=name,
        build=build,
        story=story,
        may_act=visit.may(*CHANGES),
        freezes=FREEZES,
        waits=story.record.state in WAITING,
    )


async def graph(visit: Visit) -> Response:
    reader, name = await _queue(visit, visit.query)
    found = await visit.recent(("graph", name), FRESH_S, lambda: reader.graph(name))
    return visit.render("build_graph.html", name=name, graph=found, drawing=draw(found))


async def replay(visit: Visit) -> Response:
    reader, name = await _queue(visit, visit.query)
    replayed = await reader.replay(name)
    last = max(0, len(replayed.moments) - 1)
    n = visit.number("n", last, most=last)
    at_ms = replayed.moment(n)
    return visit.render(
        "build_replay.html",
        name=name,
        n=n,
        last=last,
        at_ms=at_ms,
        board=replayed.board(at_ms),
        is_empty=not replayed.moments,
    )


async def search(visit: Visit) -> Response:
    reader, name = await _queue(visit, visit.query)
    stats = await reader.queue(name).stats()  # only if the user may read this queue
    finished = finished_builds(visit.dashboard)
    is_ready = await finished.fill(reader, visit.db, name, INDEX_WAIT_S)
    text, wanted = visit.query.get("text", "")[:500], visit.query.get("state", "")
    state = State[wanted] if wanted in State.__members__ else None
    label = finished.label(visit.db, name)
    before = visit.number("before", 0) or None
    found = await asyncio.to_thread(
        finished.index.search, label, text, state=state, before=before, limit=PAGE
    )
    return visit.render(
        "build_search.html",
        name=name,
        text=text,
        state=state,
        states=ENDED,
        found=found,
        step=PAGE,
        indexed=await asyncio.to_thread(finished.index.count, label),
        ended=sum(count for each, count in stats.by_state.items() if each.is_final),
        is_ready=is_ready,
    )


# -- changing -----------------------------------------------------------------------------------


async def abort(visit: Visit) -> Response:
    reader, name = await _queue(visit, visit.form)
    build = _build(visit.form)
    async with visit.audited("abort build", f"{name} {build}"):
        said = await reader.queue(name).abort(build, f"ABORTED_BY {visit.username}")
    visit.say(
        f"Build {build} was aborted." if said.status == "CLEANED" else f"Build {build} had ended."
    )
    return _back(visit, name, build)


async def retry(visit: Visit) -> Response:
    reader, name = await _queue(visit, visit.form)
    build = _build(visit.form)
    async with visit.audited("retry build", f"{name} {build}"):
        said = await reader.queue(name).retry(build, reason=f"RETRIED_BY {visit.username}")
    if said.status == "ENQUEUED":
        visit.say(f"Build {build} had ended: build {said.build_id} is new and has its settings.")
        return _back(visit, name, said.build_id)
    is_done = said.status == "RETRIED"
    visit.say(f"Build {build} is on offer again." if is_done else f"Refused: {said.message}")
    return _back(visit, name, build)


async def start(visit: Visit) -> Response:
    reader, name = await _queue(visit, visit.form)
    build = _build(visit.form)
    async with visit.audited("start build now", f"{name} {build}"):
        message = await start_now(reader.queue(name), build, visit.username)
    visit.say(message)
    return _back(visit, name, build)


async def start_now(queue: BuildQueue, build: int, username: str) -> str:
    """Start a build without waiting for its delay or freeze window. No worker has this attempt, so
    it is given up at once, and the next worker gets the build."""
    said = await queue.start(build, force=True)
    if said.action != "START" or said.record is None:
        return f"Build {build} cannot start now: {said.reason}. {said.message}".strip()
    retried = await queue.retry(build, reason=f"STARTED_BY {username}")
    if retried.status != "RETRIED":
        return f"Build {build} cannot start now: {retried.message}"
    return f"Build {build} is on offer: the next worker gets it."


async def freeze(visit: Visit) -> Response:
    reader, name = await _queue(visit, visit.form)
    job, wanted = _job(visit), visit.form.get("for", "")
    if wanted not in FREEZES:
        raise BadRequestError(f"How long? One of: {', '.join(FREEZES)}.")
    async with visit.audited("freeze job", f"{name} {job} {wanted}"):
        await reader.queue(name).freeze(job, FREEZES[wanted] or None)
    visit.say(f"{job} is frozen: its builds do not start. Running builds are not stopped.")
    return visit.go("/builds", db=str(visit.db), queue=name)


async def thaw(visit: Visit) -> Response:
    reader, name = await _queue(visit, visit.form)
    job = _job(visit)
    async with visit.audited("thaw job", f"{name} {job}"):
        await reader.queue(name).thaw(job)
    visit.say(f"{job} is thawed: its builds start again.")
    return visit.go("/builds", db=str(visit.db), queue=name)


# -- names --------------------------------------------------------------------------------------


async def _reader(visit: Visit) -> BuildReader:
    return await visit.reader(BuildReader)


async def _queue(visit: Visit, fields: dict[str, str]) -> tuple[BuildReader, str]:
    reader, name = await _reader(visit), fields.get("queue", "")
    _checked(reader, name)
    return reader, name


def _checked(reader: BuildReader, name: str) -> None:
    try:
        reader.queue(name)
    except BadBuildError as error:
        raise BadRequestError(f"Which queue? {error}") from None


def _job(visit: Visit) -> str:
    job = visit.form.get("job", "")
    if not job or not job.isprintable():
        raise BadRequestError("Which job? The form names none.")
    return job


def _build(fields: dict[str, str]) -> int:
    text = fields.get("build", "")
    if not text.isascii() or not text.isdigit() or not 0 < len(text) < 16 or int(text) < 1:
        raise BadRequestError("Which build? A build has a whole number, at least 1.")
    return int(text)


def _back(visit: Visit, name: str, build: int) -> Response:
    return visit.go("/builds/show", db=str(visit.db), queue=name, build=str(build))
