"""Hot keys: the keys that take most of the server's time and network."""

from starlette.responses import Response

from holdfast.web.readers.hot_keys import (
    Frequencies,
    HotKeysCount,
    begin_count,
    knows_hot_keys,
    read_count,
    read_frequencies,
)
from holdfast.web.visit import BadRequestError, Visit

SECONDS = (5, 15, 60)
FRESH_S = 1.0  # an answer for another tab may be used so long
FREQUENCIES_FRESH_S = 10.0  # longer, because they are the counters of 2,000 keys


async def show(visit: Visit) -> Response:
    client = await visit.client()

    async def look() -> tuple[bool, HotKeysCount | None]:
        counts = await knows_hot_keys(client)
        has_count = counts and visit.may("HOTKEYS GET")
        return counts, await read_count(client) if has_count else None

    async def look_at_frequencies() -> Frequencies | None:
        return await read_frequencies(client) if visit.may("OBJECT FREQ", "SCAN") else None

    counts, count = await visit.recent("hot keys", FRESH_S, look)
    return visit.render(
        "hot_keys.html",
        counts=counts,
        count=count,
        frequencies=await visit.recent("frequencies", FREQUENCIES_FRESH_S, look_at_frequencies),
        seconds=SECONDS,
        may_count=counts and visit.may("HOTKEYS START"),
    )


async def count(visit: Visit) -> Response:
    text = visit.form.get("seconds", "")
    if text not in map(str, SECONDS):
        raise BadRequestError("How long? Choose one of the numbers of seconds in the form.")
    async with visit.audited("count hot keys", f"HOTKEYS START for {text} s"):
        await begin_count(await visit.client(), int(text))
    visit.say(f"The server counts for {text} seconds.")
    return visit.go("/keys/hot", db=str(visit.db))
