"""Keys: found by pattern, shown and changed."""

import hashlib

from starlette.responses import Response

from holdfast.client import ServerError
from holdfast.client.protocol.request import Argument, as_bytes
from holdfast.figures.view import shown
from holdfast.web.key_reading import TYPES, find_keys, largest_keys, read_key
from holdfast.web.names import escaped, from_hidden, in_url, is_plain, typed
from holdfast.web.readers.bounded import Part
from holdfast.web.readers.scanning import scan
from holdfast.web.visit import BadRequestError, Visit

BIG_LOOK = 2_000  # keys that one search for big ones reads
MOST_EDITED = 64 * 1024
NO_SCAN = "The server refuses to list names of keys to this user."
# What can be added to a key, by type: the command, and the fields of its form.
ADDITIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "list": ("RPUSH", ("value",)),
    "hash": ("HSET", ("field", "value")),
    "set": ("SADD", ("value",)),
    "zset": ("ZADD", ("score", "value")),
    "stream": ("XADD", ("field", "value")),
}
COMMAND_OF = {"string": "SET", "list": "LSET", "hash": "HSET", "zset": "ZADD"}
REMOVALS = {"list": "LREM", "hash": "HDEL", "set": "SREM", "zset": "ZREM", "stream": "XDEL"}


# -- looking ------------------------------------------------------------------------------------


async def browse(visit: Visit) -> Response:
    pattern = as_bytes(visit.query.get("pattern", ""))
    kind = visit.query.get("type", "")
    cursor = visit.query.get("cursor", "0")
    if not cursor.isascii() or not cursor.isdigit():
        raise BadRequestError("The cursor is a number.")
    wanted = (
        pattern if any(each in pattern for each in b"*?[") or not pattern else b"*%b*" % pattern
    )
    found = await find_keys(await visit.client(), wanted, kind, cursor)
    if found is None:
        raise BadRequestError(NO_SCAN)
    total = await visit.ask("DBSIZE") if visit.may("INFO") else None
    return visit.render(
        "keys.html",
        found=found,
        pattern=pattern,
        kind=kind,
        types=TYPES,
        total=total,
        cursor=cursor,
    )


async def big(visit: Visit) -> Response:
    """The largest keys among those that some SCANs find. In a small database these are all keys."""
    client = await visit.client()
    cursor, names = "0", dict[bytes, None]()
    while len(names) < BIG_LOOK:
        step = await scan(client, cursor, "COUNT", 500)
        if step is None:
            raise BadRequestError(NO_SCAN)
        cursor = step.cursor
        names.update(dict.fromkeys(step.names))
        if step.is_last:
            break
    rows = await largest_keys(client, list(names))
    return visit.render("big.html", rows=rows[:100], looked_at=len(names), all=cursor == "0")


async def show(visit: Visit) -> Response:
    name = _name(visit)
    place = visit.query.get("from", "")
    view = await read_key(await visit.client(), name, place)
    if view is None:
        return visit.render("key_gone.html", 404, name=name)
    command, fields = ADDITIONS.get(view.type, ("", ()))
    may_add = bool(command) and visit.may(command)
    edits = COMMAND_OF.get(view.type, "")
    removal = REMOVALS.get(view.type, "")
    return visit.render(
        "key.html",
        view=view,
        place=place,
        addition=fields if may_add else (),
        may_edit=bool(edits) and visit.may(edits),
        may_remove=bool(removal) and visit.may(removal),
        edit=visit.query.get("edit", ""),
        field_of=field_of,
        digest=digest,
    )


def field_of(part: Part) -> dict[str, object] | None:
    """The content of the text area for this value; None if a part of the value is missing."""
    if not part.is_whole or part.size > MOST_EDITED:
        return None
    is_text = is_plain(part.data)
    text = part.data.decode() if is_text else escaped(part.data)
    return {"text": text, "is_escaped": not is_text, "was": digest(part.data)}


def digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:32]


def _name(visit: Visit) -> bytes:
    if "name" not in visit.query:
        raise BadRequestError("Which key? The address names none.")
    return as_bytes(visit.query["name"])


# -- changing -----------------------------------------------------------------------------------


def _target(visit: Visit) -> bytes:
    if "name" not in visit.form:
        raise BadRequestError("The form names no key.")
    return from_hidden(visit.form["name"])


def _back(visit: Visit, name: bytes, message: str) -> Response:
    visit.say(message)
    return visit.go(f"/keys/show?db={visit.db}&name={in_url(name)}")


def _typed(visit: Visit, field: str) -> bytes:
    try:
        return typed(visit.form.get(field, ""), visit.form.get("escaped") == "yes")
    except ValueError as error:
        raise BadRequestError(f"{field}: {error}") from None


async def create(visit: Visit) -> Response:
    name, kind = _typed(visit, "name"), visit.form.get("type", "string")
    if not name:
        raise BadRequestError("A key needs a name.")
    value, field = _typed(visit, "value"), _typed(visit, "field")
    words: dict[str, tuple[Argument, ...]] = {
        "string": ("SET", name, value, "NX"),
        "list": ("RPUSH", name, value),
        "hash": ("HSET", name, field or b"field", value),
        "set": ("SADD", name, value),
        "zset": ("ZADD", name, field or b"0", value),
        "stream": ("XADD", name, "*", field or b"field", value),
    }
    if kind not in words:
        raise BadRequestError("There is no such type.")
    if await visit.ask("EXISTS", name):
        raise BadRequestError("A key with this name exists already.")
    await visit.change("create key", *words[kind])
    return _back(visit, name, "The key was created.")


async def edit(visit: Visit) -> Response:
    """Change a string, an element, a field or a score, if it still equals the value on the page."""
    name, kind, place = _target(visit), visit.form.get("type", ""), visit.form.get("place", "")
    value = _typed(visit, "value")
    reads: dict[str, tuple[Argument, ...]] = {
        "string": ("GET", name),
        "list": ("LINDEX", name, place),
        "hash": ("HGET", name, from_hidden(place)),
    }
    writes: dict[str, tuple[Argument, ...]] = {
        "string": ("SET", name, value, "KEEPTTL"),
        "list": ("LSET", name, place, value),
        "hash": ("HSET", name, from_hidden(place), value),
    }
    if kind == "zset":
        await visit.change("change score", "ZADD", name, "XX", value, from_hidden(place))
        return _back(visit, name, "The score was changed.")
    if kind not in reads:
        raise BadRequestError("Values of this type are not changed in place.")
    client = await visit.client()
    detail = f"{COMMAND_OF[kind]} {shown(name)} ({len(value)} bytes)"
    async with visit.audited("change value", detail), client.transaction(name) as transaction:
        current = await transaction.exec(*reads[kind])  # type: ignore[arg-type]
        if current is None or digest(current) != visit.form.get("was"):
            raise BadRequestError("Nothing was changed: the value differs from that of the page.")
        transaction.add(*writes[kind])
        (reply,) = await transaction.commit()
        if isinstance(reply, ServerError):
            raise reply
    return _back(visit, name, "The value was changed.")


async def add(visit: Visit) -> Response:
    name, kind = _target(visit), visit.form.get("type", "")
    value, field = _typed(visit, "value"), _typed(visit, "field")
    at_end = visit.form.get("end") != "head"
    words: dict[str, tuple[Argument, ...]] = {
        "list": ("RPUSH" if at_end else "LPUSH", name, value),
        "hash": ("HSET", name, field, value),
        "set": ("SADD", name, value),
        "zset": ("ZADD", name, visit.form.get("score", ""), value),
        "stream": ("XADD", name, "*", field, value),
    }
    if kind not in words:
        raise BadRequestError("Nothing can be added to this type.")
    await visit.change("add element", *words[kind])
    return _back(visit, name, "It was added.")


async def remove(visit: Visit) -> Response:
    name, kind = _target(visit), visit.form.get("type", "")
    place = from_hidden(visit.form.get("place", ""))
    words: dict[str, tuple[Argument, ...]] = {
        "list": ("LREM", name, 1, place),
        "hash": ("HDEL", name, place),
        "set": ("SREM", name, place),
        "zset": ("ZREM", name, place),
        "stream": ("XDEL", name, place),
    }
    if kind not in words:
        raise BadRequestError("Nothing can be removed from this type.")
    gone = await visit.change("remove element", *words[kind])
    return _back(visit, name, "It was removed." if gone else "It was gone already.")


async def delete(visit: Visit) -> Response:
    name = _target(visit)
    command = "UNLINK" if visit.may("UNLINK") else "DEL"
    gone = await visit.change("delete key", command, name)
    visit.say(f"{shown(name)} was deleted." if gone else f"{shown(name)} was gone already.")
    return visit.go("/keys", db=str(visit.db))


async def rename(visit: Visit) -> Response:
    name, to = _target(visit), _typed(visit, "to")
    if not to:
        raise BadRequestError("A key needs a name.")
    if not await visit.change("rename key", "RENAMENX", name, to):
        raise BadRequestError("Nothing was changed: a key with this name exists already.")
    return _back(visit, to, "The key was renamed.")


async def expire(visit: Visit) -> Response:
    name, text = _target(visit), visit.form.get("seconds", "").strip()
    if not text:
        await visit.change("remove expiry", "PERSIST", name)
        return _back(visit, name, "The key does not expire.")
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) < 1:
        raise BadRequestError("The time is a number of seconds, at least 1.")
    await visit.change("set expiry", "EXPIRE", name, text)
    return _back(visit, name, f"The key expires in {text} seconds.")
