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

# Commands of Redis 8 that are not in the table, by group: since which version, the reason, their
# names.
MISSING = {
    "Arrays": (
        "8.8.0",
        "An array is a data type of its own; a list or a hash takes its place here.",
        """aragg arcount ardel ardelrange arget argetrange argrep arinfo arinsert arlastitems arlen
        armget armset arnext arop arring arscan arseek arset""",
    ),
    "Vector sets": (
        "8.0.0",
        "Searching by similarity needs an index of its own, which one SQLite file does not have.",
        """vadd vcard vdim vemb vgetattr vinfo vismember vlinks vrandmember vrange vrem vsetattr
        vsim""",
    ),
    "JSON documents": (
        "8.0.0",
        "A document is stored as a string, or its parts as fields of a hash.",
        """json.arrappend json.arrindex json.arrinsert json.arrlen json.arrpop json.arrtrim
        json.clear json.debug json.del json.forget json.get json.merge json.mget json.mset
        json.numincrby json.nummultby json.objkeys json.objlen json.resp json.set json.strappend
        json.strlen json.toggle json.type""",
    ),
    "Search": (
        "8.0.0",
        "Holdfast has no secondary indexes; its file can be queried with SQL instead.",
        """ft._list ft.aggregate ft.aliasadd ft.aliasdel ft.aliaslist ft.aliasupdate ft.alter
        ft.config ft.create ft.cursor ft.dictadd ft.dictdel ft.dictdump ft.dropindex ft.explain
        ft.explaincli ft.hybrid ft.info ft.profile ft.search ft.spellcheck ft.sugadd ft.sugdel
        ft.sugget ft.suglen ft.syndump ft.synupdate ft.tagvals""",
    ),
    "Time series": (
        "8.0.0",
        "Samples are entries of a stream or members of a sorted set here.",
        """ts.add ts.alter ts.create ts.createrule ts.decrby ts.del ts.deleterule ts.get ts.incrby
        ts.info ts.madd ts.mget ts.mrange ts.mrevrange ts.nrange ts.nrevrange ts.queryindex
        ts.querylabels ts.range ts.read ts.revrange""",
    ),
    "Probabilistic types": (
        "8.0.0",
        "Of the sketches Holdfast has the HyperLogLog; sets and sorted sets are exact.",
        """bf.add bf.card bf.exists bf.info bf.insert bf.loadchunk bf.madd bf.mexists bf.reserve
        bf.scandump cf.add cf.addnx cf.count cf.del cf.exists cf.info cf.insert cf.insertnx
        cf.loadchunk cf.mexists cf.reserve cf.scandump cms.incrby cms.info cms.initbydim
        cms.initbyprob cms.merge cms.query topk.add topk.count topk.incrby topk.info topk.list
        topk.query topk.reserve tdigest.add tdigest.byrank tdigest.byrevrank tdigest.cdf
        tdigest.create tdigest.info tdigest.max tdigest.merge tdigest.min tdigest.quantile
        tdigest.rank tdigest.reset tdigest.revrank tdigest.trimmed_mean""",
    ),
    "Inside of Redis": (
        "8.6.2",
        "Redis writes it into its own append-only file; `holdfast import` passes over it.",
        "xidmprecord",
    ),
}

# Commands that differ from Redis, with the section of docs/compatibility.md that says how.
PARTLY = {
    "command-docs": "command|docs",
    "debug": "debug",
    "script-debugger": "script|debug",
    "excluded": "wait module module|list",
    "no-snapshots": "save bgsave bgrewriteaof",
    "string-encoding": "object|encoding object|refcount",
    "own-numbers": """latency|doctor latency|graph latency|histogram latency|history latency|latest
        memory|doctor memory|malloc-stats memory|stats memory|usage""",
    "info-fields": "info",
    "blocking-null": "blpop brpop bzpopmin bzpopmax",
    "dump-form": "dump",
    "himport-encoding": "himport|set",
    "exact-counts": "sunioncard hotkeys|get",
    "commandlog-limits": "commandlog|get commandlog|len commandlog|reset",
    "scan-cursor": "scan hscan sscan zscan",
    "sort-ties": "sort sort_ro",
    "lazy-freeing": "unlink",
    "replicas": "client|capa",
}
OURS_ALONE = "active"  # neither Redis nor Valkey has it
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
    yield "\nA Holdfast server is a single node. So commands of a cluster, `CLUSTER SLOT-STATS`"
    yield "too, get the error of a Redis or Valkey server outside of a cluster, byte for byte."
    yield "`CLIENT IMPORT-SOURCE` gets that of a Valkey server whose `import-mode` is off."
    yield "\nUnknown here, as for a redis-server without these modules:\n"
    yield "| | since | | |\n|---|---|---|---|"
    for title, (since, reason, names) in MISSING.items():
        yield f"| {title} | {since} | {reason} | {_shown(names)} |"
    yield from _table()


def _table() -> Iterator[str]:
    """All commands with their versions, for readers who want to know what a release has."""
    yield "\n## All commands by name\n"
    yield "The version is that of Redis, if not that of Valkey is named."
    yield "A test compares names and arities with valkey-server 9.\n"
    yield "| command | arity | since | |\n|---|---|---|---|"
    for entry in sorted(_all_entries(), key=lambda entry: entry.name):
        if entry.name.partition("|")[0] != OURS_ALONE:
            word = re.sub(r"[^a-z].*", "", status(entry).strip("*")) or "supported"
            yield f"| {full_name(entry)} | {entry.arity} | {since_of(entry)} | {word} |"


def _all_entries() -> Iterator[Command]:
    for entry in TABLE.values():
        yield entry
        yield from entry.subcommands.values()


def _shown(names: str) -> str:
    return " ".join(f"`{name.replace('|', ' ').upper()}`" for name in names.split())


def missing_names() -> set[str]:
    return {name for _, _, names in MISSING.values() for name in names.split()}


def _command(entry: Command) -> Iterator[str]:
    if not entry.subcommands or entry.name == "command":  # COMMAND works alone, too
        yield from _entry(entry)
    for sub in sorted(entry.subcommands.values(), key=lambda sub: sub.name):
        yield from _entry(sub)


def _entry(entry: Command) -> Iterator[str]:
    summary, _, *notes = paragraphs(entry)
    flags = " ".join(flag for flag in FLAGS if flag in entry.flags)
    facts = [f"since {since_of(entry)}", f"arity {entry.arity}", flags, status(entry)]
    yield f"\n### {full_name(entry)}\n"
    yield f"{summary}\n"
    yield f"```\n{syntax(entry)}\n```"
    for note in notes:
        yield f"\n{note}"
    yield f"\n{' · '.join(filter(None, facts))}"


def status(entry: Command) -> str:
    if entry.name in _REFUSED or (entry.subcommands and _names_below(entry) <= _REFUSED):
        return "**excluded**"
    id = _PARTLY_BY_NAME.get(entry.name)
    return f"partly: [{id}](compatibility.md#{id})" if id else ""


def _names_below(entry: Command) -> set[str]:
    return {sub.name for sub in entry.subcommands.values()}


def since_of(entry: Command) -> str:
    return f"Valkey {entry.since}" if "valkey" in entry.flags else entry.since


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
