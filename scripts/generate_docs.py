"""Writes docs/commands.md from the table of commands. `make docs` runs this script; a test checks
that the page is up to date."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast import all_commands as all_commands
from holdfast.commands.table import FLAGS, TABLE, Command
from holdfast.server.commands.excluded_commands import TABLE as EXCLUDED

TARGET = Path(__file__).parent.parent / "docs" / "commands.md"

GROUPS = {
    "string": "Strings",
    "list": "Lists",
    "hash": "Hashes",
    "set": "Sets",
    "sorted-set": "Sorted sets",
    "stream": "Streams",
    "bitmap": "Bitmaps",
    "hyperloglog": "HyperLogLog",
    "geo": "Geo",
    "generic": "Keys of any type",
    "pubsub": "Pub/sub",
    "transactions": "Transactions",
    "scripting": "Scripts and functions",
    "connection": "Connections",
    "server": "The server",
    "cluster": "Redis Cluster",
}

# Commands of Redis 7.2 that are not in the table, by group, with the reason.
MISSING = {
    "Looking into a HyperLogLog": (
        "is for developers of redis-server",
        "pfdebug pfselftest",
    ),
    "Shards of a cluster": ("as all of Redis Cluster", "cluster|myshardid"),
}

# Commands that differ from Redis, with the section of docs/compatibility.md that says how.
PARTLY = {
    "command-docs": "command|docs",
    "debug": "debug",
    "script-debugger": "script|debug",
    "excluded": "wait module|list",
    "no-snapshots": "save bgsave bgrewriteaof",
    "string-encoding": "object|encoding object|refcount",
    "own-numbers": """latency|doctor latency|graph latency|histogram latency|history latency|latest
        memory|doctor memory|malloc-stats memory|stats memory|usage""",
    "info-fields": "info",
    "blocking-null": "blpop brpop bzpopmin bzpopmax",
    "dump-form": "dump",
    "scan-cursor": "scan hscan sscan zscan",
    "sort-ties": "sort sort_ro",
    "lazy-freeing": "unlink",
}
_PARTLY_BY_NAME = {name: id for id, names in PARTLY.items() for name in names.split()}
_REFUSED = {row[0] for row in EXCLUDED}


def generate() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Commands\n"
    yield "Generated from the table of commands by `make docs`; edit the docstrings instead."
    yield "Where a command differs from Redis on purpose, [compatibility.md](compatibility.md)"
    yield "says so. Arity counts the name; negative means at least as many. What is not marked as"
    yield "partly or excluded is supported."
    for group, title in GROUPS.items():
        entries = [entry for _, entry in sorted(TABLE.items()) if entry.group == group]
        if entries:
            yield f"\n## {title}"
        for entry in entries:
            yield from _command(entry)
    yield "\n## What is not here\n"
    yield "Refused, each with the sentence of the first column:\n"
    yield "| | |\n|---|---|"
    for sentence in dict.fromkeys(row[-1] for row in EXCLUDED):
        names = " ".join(row[0] for row in EXCLUDED if row[-1] == sentence)
        yield f"| {sentence.removeprefix('ERR ')} | {_shown(names)} |"
    yield "\nUnknown here:\n"
    yield "| | | |\n|---|---|---|"
    for title, (reason, names) in MISSING.items():
        yield f"| {title} | {reason} | {_shown(names)} |"


def _shown(names: str) -> str:
    return " ".join(f"`{name.replace('|', ' ').upper()}`" for name in names.split())


def missing_names() -> set[str]:
    return {name for _, names in MISSING.values() for name in names.split()}


def _command(entry: Command) -> Iterator[str]:
    if not entry.subcommands or entry.name == "command":  # COMMAND works alone, too
        yield from _entry(entry)
    for sub in sorted(entry.subcommands.values(), key=lambda sub: sub.name):
        yield from _entry(sub)


def _entry(entry: Command) -> Iterator[str]:
    summary, _, *notes = paragraphs(entry)
    flags = " ".join(flag for flag in FLAGS if flag in entry.flags)
    facts = [f"since {entry.since}", f"arity {entry.arity}", flags, status(entry)]
    yield f"\n### {full_name(entry)}\n"
    yield f"{summary}\n"
    yield f"```\n{syntax(entry)}\n```"
    for note in notes:
        yield f"\n{note}"
    yield f"\n{' · '.join(filter(None, facts))}"


def status(entry: Command) -> str:
    if entry.name in _REFUSED:
        return "**excluded**"
    id = _PARTLY_BY_NAME.get(entry.name)
    return f"partly: [{id}](compatibility.md#{id})" if id else ""


def full_name(entry: Command) -> str:
    return entry.name.replace("|", " ").upper()


def paragraphs(entry: Command) -> list[str]:
    """The paragraphs of a handler's docstring: the summary, the syntax, and notes."""
    return (inspect.getdoc(entry.handler) or "").split("\n\n")


def syntax(entry: Command) -> str:
    """The lines of the syntax that begin with this name. A handler may have several names."""
    forms = re.split(r"\n(?=[A-Z])", paragraphs(entry)[1])
    return "\n".join(form for form in forms if f"{form} ".startswith(f"{full_name(entry)} "))


if __name__ == "__main__":
    TARGET.write_text(generate())
