"""Hot keys: the keys that take most of the server's time and network."""

from starlette.responses import Response

from holdfast.web.readers.hot_keys import (
    begin_count,
    knows_hot_keys,
    read_count,
    read_frequencies,
)
from holdfast.web.visit import BadRequestError, Visit

SECONDS = (5, 15, 60)


async def show(visit: Visit) -> Response:
    client = await visit.client()
    counts = await knows_hot_keys(client)
    may_read = visit.may("OBJECT FREQ", "SCAN")
    return visit.render(
        "hot_keys.html",
        counts=counts,
        count=await read_count(client) if counts and visit.may("HOTKEYS GET") else None,
        frequencies=await read_frequencies(client) if may_read else None,
        seconds=SECONDS,
        may_count=counts and visit.may("HOTKEYS START"),
    )


async def count(visit: Visit) -> Response:
    text = visit.form.get("seconds", "")
    if text not in map(str, SECONDS):
        raise BadRequestError("How long? The form has the numbers of seconds.")
    async with visit.audited("count hot keys", f"HOTKEYS START for {text} s"):
        await begin_count(await visit.client(), int(text))
    visit.say(f"The server counts for {text} seconds.")
    return visit.go("/keys/hot", db=str(visit.db))
