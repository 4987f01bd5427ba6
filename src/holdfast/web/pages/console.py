"""The console: any command, except those that a shared connection cannot take."""

import re
from typing import Any

from starlette.responses import JSONResponse, Response

from holdfast.client.protocol.request import as_bytes
from holdfast.client.protocol.special import REFUSED, REFUSED_PAIRS, blocks
from holdfast.errors import HoldfastError
from holdfast.figures.view import shown
from holdfast.web.names import line_of, unescaped
from holdfast.web.readers.asking import ask_one, pairs
from holdfast.web.security.redaction import safe_reply, safe_words, unread_words
from holdfast.web.visit import BadRequestError, Visit

MOST_LINES = 500
MOST_CHARACTERS = 2_000  # of one string
MOST_HISTORY = 50
ENDLESS = (
    "DEBUG SLEEP",
    "WAIT",
    "WAITAOF",
    "SHUTDOWN",
    "FAILOVER",
)
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|\'([^\']*)\'|(\S+)')


async def show(visit: Visit) -> Response:
    return visit.render("console.html", entries=visit.session.console, line="")


async def run(visit: Visit) -> Response:
    line = visit.form.get("line", "").strip()
    if not line:
        return visit.go("/console")
    words = unread_words(as_bytes(line))
    try:
        words = split(line)
        why = refusal(words)
        if why is not None:
            raise BadRequestError(why)
        text = await _run(visit, words)
        is_error = False
    except (BadRequestError, ValueError, HoldfastError) as error:
        text, is_error = str(error), True
    entry = {"line": line_of(safe_words(words)), "text": text, "is_error": is_error}
    visit.session.console.append(entry)
    del visit.session.console[:-MOST_HISTORY]
    return visit.render("console.html", entries=visit.session.console, line="")


async def _run(visit: Visit, words: list[bytes]) -> str:
    """Run a command. Commands that only read are not in the audit trail."""
    name = words[0].decode("utf-8", "surrogateescape").upper()
    if await _only_reads(visit, words):
        reply = await visit.ask(name, *words[1:])
    else:
        reply = await visit.change("console", name, *words[1:])
    return printed(safe_reply(words, reply))


async def _only_reads(visit: Visit, words: list[bytes]) -> bool:
    """Whether the server marks the command as one that only reads. If that is unknown, the command
    may change data."""
    for asked in ([words[0] + b"|" + words[1]] if len(words) > 1 else [], [words[0]]):
        if not asked:
            continue
        try:
            info = await visit.ask("COMMAND", "INFO", *asked)
        except HoldfastError:
            return False
        if info and info[0]:
            flags = {as_bytes(flag).decode("latin-1").lower() for flag in info[0][2]}
            if "readonly" in flags:
                return True
            categories = {as_bytes(each).decode("latin-1") for each in (info[0][6:7] or [[]])[0]}
            is_harmless = "write" not in flags and "admin" not in flags
            return is_harmless and bool({"@connection", "@read"} & categories)
    return False


async def commands(visit: Visit) -> Response:
    """Names and syntax, for completion. Empty if the user may not ask for them."""
    docs = pairs(await ask_one(await visit.client(), "COMMAND", "DOCS"))
    found: dict[str, str] = {}
    for name, about in docs.items():
        about = pairs(about)
        found[_word(name).upper()] = _word(about.get(b"summary", b""))
        for sub, facts in pairs(about.get(b"subcommands") or {}).items():
            found[_word(sub).replace("|", " ").upper()] = _word(pairs(facts).get(b"summary", b""))
    return JSONResponse(found, headers={"cache-control": "private, max-age=600"})


def _word(text: Any) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def split(line: str) -> list[bytes]:
    """The words of a line, split as in redis-cli: "…" with escapes, '…' without. Raises
    ValueError."""
    words, at = [], 0
    for token in _TOKEN.finditer(line):
        if line[at : token.start()].strip():
            break
        double, single, bare = token.groups()
        if bare is not None and bare[0] in "\"'":
            raise ValueError("a quotation mark is not closed")
        words.append(unescaped(double) if double is not None else as_bytes(single or bare or ""))
        at = token.end()
    if line[at:].strip():
        raise ValueError("a quotation mark is not closed")
    return words


def refusal(words: list[bytes]) -> str | None:
    """The reason why a command is not sent; None if it is sent."""
    if not words or not words[0]:
        return "A command has a name."
    name = words[0].decode("latin-1").upper()
    both = f"{name} {words[1].decode('latin-1').upper()}" if len(words) > 1 else name
    for each in (name, both):
        if each in REFUSED or each in REFUSED_PAIRS:
            return (
                f"{each} changes the state of a connection, and the console shares its connection."
            )
    if blocks((name, *words[1:])) or name in ENDLESS or both in ENDLESS:
        if name == "SHUTDOWN":
            return "SHUTDOWN is not for a browser: stop the server where it was started."
        return f"{both if both in ENDLESS else name} would wait, and the console does not wait."
    return None


def printed(reply: Any) -> str:
    """A reply in the form of redis-cli, cut if it is long."""
    lines: list[str] = []
    _print(reply, "", "", lines)
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"… ({len(lines)} lines)"]
    return "\n".join(lines)


def _print(reply: Any, first: str, indent: str, lines: list[str]) -> None:
    if len(lines) > MOST_LINES:
        lines.append("…")
        return
    if isinstance(reply, dict):
        if not reply:
            lines.append(f"{first}(empty)")
        for n, (name, value) in enumerate(reply.items(), 1):
            head = f"{n}# {_scalar(name)} => "
            _print(value, (first if n == 1 else indent) + head, indent + " " * 3, lines)
    elif isinstance(reply, list | tuple | set | frozenset):
        if not reply:
            lines.append(f"{first}(empty)")
        for n, value in enumerate(reply, 1):
            _print(value, f"{first if n == 1 else indent}{n}) ", indent + " " * 3, lines)
    else:
        lines.append(first + _scalar(reply))


def _scalar(value: Any) -> str:
    if value is None:
        return "(nil)"
    if isinstance(value, bool | int):
        return f"(integer) {int(value)}"
    if isinstance(value, HoldfastError):
        return f"(error) {value}"
    if isinstance(value, bytes):
        text = shown(value[:MOST_CHARACTERS])
        more = f"… ({len(value)} bytes)" if len(value) > MOST_CHARACTERS else ""
        return f'"{text}"{more}'
    return str(value)[:MOST_CHARACTERS]
