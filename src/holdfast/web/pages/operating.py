"""Slow log, clients, users, configuration and the audit trail."""

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from holdfast.client.protocol.request import as_bytes
from holdfast.errors import HoldfastError
from holdfast.figures.sample import read_slow
from holdfast.figures.view import shown
from holdfast.web.config_defaults import REDIS_DEFAULTS, our_defaults
from holdfast.web.names import line_of
from holdfast.web.readers.asking import ask_one, number, pairs
from holdfast.web.security.redaction import HIDDEN, is_secret
from holdfast.web.visit import BadRequestError, Visit

MOST_SLOW = 128
MOST_CLIENTS = 1_000
MOST_USERS = 200
PAGE_AUDIT = 100
FRESH_S = 1.0  # an answer for another tab may be used so long


# -- slow log -----------------------------------------------------------------------------------


async def slow_log(visit: Visit) -> Response:
    client = await visit.client()

    async def look() -> tuple[Any, Any]:
        limits = await ask_one(client, "CONFIG", "GET", "slowlog-log-slower-than")
        return await visit.ask("SLOWLOG", "GET", MOST_SLOW), pairs(limits)

    reply, limits = await visit.recent("slow log", FRESH_S, look)
    rows = []
    for each in reply:
        slow = read_slow(each)
        address, name = (*each[4:6], b"", b"")[:2]
        rows.append((slow.at_s, slow.took_us, line_of(slow.words), address, name))
    limit_us = number(limits.get(b"slowlog-log-slower-than"))
    return visit.render("slow_log.html", rows=rows, limit_us=limit_us)


async def reset_slow_log(visit: Visit) -> Response:
    await visit.change("empty slow log", "SLOWLOG", "RESET")
    visit.say("The slow log is empty.")
    return visit.go("/slow-log")


# -- clients ------------------------------------------------------------------------------------


async def clients(visit: Visit) -> Response:
    client = await visit.client()

    async def look() -> tuple[Any, Any]:
        return await visit.ask("CLIENT", "LIST"), await ask_one(client, "CLIENT", "ID")

    reply, own_id = await visit.recent("clients", FRESH_S, look)
    lines = as_bytes(reply).decode("utf-8", "backslashreplace").splitlines()
    rows = [dict(part.partition("=")[::2] for part in line.split(" ")) for line in lines]
    order = visit.query.get("sort", "id")
    if order not in ("id", "age", "idle", "tot-mem", "qbuf", "omem"):
        order = "id"
    is_down = order != "id"
    rows.sort(key=lambda row: _int(row.get(order, "0")), reverse=is_down)
    own = as_bytes(own_id or b"").decode()
    return visit.render(
        "clients.html", rows=rows[:MOST_CLIENTS], total=len(rows), order=order, own=own
    )


async def kill_client(visit: Visit) -> Response:
    id = visit.form.get("id", "")
    if not id.isascii() or not id.isdigit():
        raise BadRequestError("Which client? The form names none.")
    gone = await visit.change("close client", "CLIENT", "KILL", "ID", id)
    visit.say(f"The connection {id} was closed." if gone else f"There is no connection {id}.")
    return visit.go("/clients")


def _int(text: str) -> int:
    return number(text) or 0


# -- users --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class User:
    name: str
    is_on: bool
    has_no_password: bool
    passwords: int
    rules: tuple[tuple[str, str], ...]


async def users(visit: Visit) -> Response:
    names = sorted(await visit.ask("ACL", "USERS"))
    shown_names = names[:MOST_USERS]
    replies = await visit.ask_all([("ACL", "GETUSER", name) for name in shown_names])
    found = [
        _user(name, pairs(reply))
        for name, reply in zip(shown_names, replies, strict=True)
        if reply and not isinstance(reply, HoldfastError)  # it may be gone
    ]
    log = await ask_one(await visit.client(), "ACL", "LOG", "20") if visit.may("ACL LOG") else None
    denials = [{_text(k): _text(v) for k, v in pairs(each).items()} for each in log or ()]
    return visit.render("users.html", users=found, total=len(names), denials=denials)


def _user(name: Any, facts: dict[Any, Any]) -> User:
    """A user, with the number of passwords, but without passwords and their hashes."""
    flags = {_text(flag) for flag in facts.get(b"flags", ())}
    rules = []
    for part in (b"commands", b"keys", b"channels"):
        value = facts.get(part, b"")
        text = (
            " ".join(map(_text, value)) if isinstance(value, list | set | tuple) else _text(value)
        )
        rules.append((part.decode(), text or "none"))
    selectors = facts.get(b"selectors") or ()
    if selectors:
        rules.append(("selectors", str(len(selectors))))
    count = len(facts.get(b"passwords") or ())
    return User(_text(name), "on" in flags, "nopass" in flags, count, tuple(rules))


def _text(value: Any) -> str:
    if isinstance(value, list | tuple | set):
        return " ".join(map(_text, value))
    return shown(value) if isinstance(value, bytes) else str(value)


# -- configuration ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    value: str
    default: str | None
    is_hidden: bool

    @property
    def differs(self) -> bool:
        return self.default is not None and self.value != self.default


async def configuration(visit: Visit) -> Response:
    reply = pairs(await visit.ask("CONFIG", "GET", "*"))
    info = await ask_one(await visit.client(), "INFO", "server")
    is_ours = b"holdfast_version" in as_bytes(info or b"")
    defaults = our_defaults() if is_ours else REDIS_DEFAULTS
    found = []
    for raw_name, raw in sorted(reply.items()):
        name, value = _text(raw_name), _text(raw)
        hidden = is_secret(name)
        if hidden and value:
            value = HIDDEN
        default = defaults.get(name)
        found.append(Parameter(name, value, "" if hidden and default is None else default, hidden))
    wanted = visit.query.get("show", "changed")
    rows = found if wanted == "all" else [each for each in found if each.differs]
    pattern = visit.query.get("pattern", "").lower()
    if pattern:
        rows = [each for each in found if pattern in each.name]
    return visit.render(
        "configuration.html",
        rows=rows,
        total=len(found),
        show=wanted,
        pattern=pattern,
        edit=visit.query.get("edit", ""),
        is_ours=is_ours,
    )


async def set_parameter(visit: Visit) -> Response:
    name, value = visit.form.get("name", ""), visit.form.get("value", "")
    await visit.change("change configuration", "CONFIG", "SET", name, value)
    visit.say(f"{name} was changed. CONFIG REWRITE keeps it for the next start.")
    return visit.go("/configuration", pattern=name)


async def rewrite(visit: Visit) -> Response:
    await visit.change("write configuration", "CONFIG", "REWRITE")
    visit.say("The configuration file was written.")
    return visit.go("/configuration")


# -- the audit trail ----------------------------------------------------------------------------


async def audit(visit: Visit) -> Response:
    before = visit.number("before", 0) or None
    entries = visit.dashboard.history.audited(before, PAGE_AUDIT)
    is_kept = visit.dashboard.history.path is not None
    return visit.render("audit.html", entries=entries, page=PAGE_AUDIT, is_kept=is_kept)
