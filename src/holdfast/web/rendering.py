"""Templates: the environment with its filters, and the events for open pages."""

import hashlib
import json
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from holdfast._version import __version__
from holdfast.figures.units import count, micros, percent, seconds, size
from holdfast.figures.view import shown
from holdfast.web.live.hub import event
from holdfast.web.names import in_url
from holdfast.web.readers.bodies import printable

if TYPE_CHECKING:
    from holdfast.web.live.poller import Poller

STATIC_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
MOST_SHOWN = 4_000  # characters of one value on a page


def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("holdfast.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": count,
        "size": size,
        "micros": micros,
        "seconds": seconds,
        "percent": percent,
        "text": text,
        "said": said,
        "brief": brief,
        "clip": clip,
        "whole": whole,
        "when": when,
        "in_url": in_url,
    }
    made.globals |= {"version": __version__, "static": static_url}
    return made


def text(value: Any) -> str:
    """Bytes or text from any source, as text that can be shown."""
    if isinstance(value, bytes):
        return shown(value)
    if isinstance(value, str):
        return shown(value.encode("utf-8", "surrogateescape"))
    return str(value)


def said(value: str) -> str:
    """A sentence of ours, or text that a user has typed. Names in it are escaped already."""
    return printable(value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def brief(value: str, most: int) -> str:
    """The beginning of such a text, in one line."""
    line = said(" ".join(value[: 2 * most].split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def clip(value: Any, most: int = MOST_SHOWN) -> str:
    """The beginning of a long value, and its length."""
    if isinstance(value, bytes) and len(value) > most:
        return f"{shown(value[:most])} … ({size(len(value))})"
    shown_text = text(value)
    if len(shown_text) > most:
        return f"{shown_text[:most]} … ({len(shown_text)} characters)"
    return shown_text


def whole(number: float | None) -> str:
    """1,234,567."""
    return "–" if number is None else f"{number:,.0f}"


def when(unix_s: float | None) -> Markup:
    """A time: in UTC, which JavaScript changes to the time zone of the user."""
    if unix_s is None:
        return Markup("–")
    try:
        moment = datetime.fromtimestamp(unix_s, UTC)
    except (ValueError, OverflowError, OSError):
        return escape(str(unix_s))
    iso, plain = moment.strftime("%Y-%m-%dT%H:%M:%SZ"), moment.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}">{} UTC</time>').format(iso, plain)


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """All static files by name: their bytes and their type."""
    found = {}
    for each in files("holdfast.web").joinpath("static").iterdir():
        kind = STATIC_TYPES.get(each.name[each.name.rfind(".") :])
        if kind is not None:
            found[each.name] = each.read_bytes(), kind
    return found


@cache
def static_url(name: str) -> str:
    """The URL with a digest, so that a browser may keep the file for ever."""
    digest = hashlib.sha256(static_files()[name][0]).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


def live_events(templates: Environment, poller: "Poller") -> dict[str, bytes]:
    """The events for open pages. The overview gets the figures. All other pages only get whether
    the server answers. Each event is made once for all pages."""
    view = poller.view
    status = {
        "up": not poller.is_away,
        "trouble": view.trouble,
        "since": poller.failed_since_s,
        "run": poller.run_id,
    }
    state = event("status", json.dumps(status))
    figures = templates.get_template("figures.html").render(view=view, poller=poller)
    page = figures.encode("utf-8", "backslashreplace").decode()
    return {"status": state, "figures": state + event("figures", page)}
