"""Writes docs/commands.md from the table of commands. `make docs` runs it; a test compares."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast import commands as commands
from holdfast.commands.table import FLAGS, TABLE, Command
from holdfast.server import families as families

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

# Commands of Redis 7.2 that are not in the table: what, why, and their names. What has come to the
# table meanwhile is not shown any more. A container that is missing stands for all of its
# subcommands.
MISSING = {
    "Hashes": (
        "come with the other data types",
        """hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan
        hset hsetnx hstrlen hvals""",
    ),
    "Sets": (
        "come with the other data types",
        """sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember
        smove spop srandmember srem sscan sunion sunionstore""",
    ),
    "Sorted sets": (
        "come with the other data types",
        """bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard
        zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex
        zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore
        zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore""",
    ),
    "Looking into a HyperLogLog": (
        "is for those who develop redis-server",
        "pfdebug pfselftest",
    ),
    "Geo": (
        "comes with the other data types",
        """geoadd geodist geohash geopos georadius georadius_ro georadiusbymember
        georadiusbymember_ro geosearch geosearchstore""",
    ),
    "Scripts and functions": (
        "come with Lua",
        "eval eval_ro evalsha evalsha_ro fcall fcall_ro function script",
    ),
    "Users": ("come with access control; until then there is `requirepass`", "acl"),
}


def generate() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Commands\n"
    yield "Generated from the table of commands by `make docs`; edit the docstrings instead."
    yield "Where a command differs from Redis on purpose, [compatibility.md](compatibility.md)"
    yield "says so. Arity counts the name; negative means at least as many."
    for group, title in GROUPS.items():
        entries = [entry for _, entry in sorted(TABLE.items()) if entry.group == group]
        if entries:
            yield f"\n## {title}"
        for entry in entries:
            yield from _command(entry)
    yield "\n## What is not here\n"
    yield "| | | |\n|---|---|---|"
    for title, (reason, names) in MISSING.items():
        shown = " ".join(f"`{name.upper()}`" for name in names.split() if name in missing_names())
        if shown:
            yield f"| {title} | {reason} | {shown} |"


def missing_names() -> set[str]:
    return {name for _, names in MISSING.values() for name in names.split()} - TABLE.keys()


def _command(entry: Command) -> Iterator[str]:
    if not entry.subcommands or entry.name == "command":  # COMMAND alone is a command as well
        yield from _entry(entry)
    for sub in sorted(entry.subcommands.values(), key=lambda sub: sub.name):
        yield from _entry(sub)


def _entry(entry: Command) -> Iterator[str]:
    summary, _, *notes = paragraphs(entry)
    flags = " ".join(flag for flag in FLAGS if flag in entry.flags)
    facts = [f"since {entry.since}", f"arity {entry.arity}", flags]
    yield f"\n### {full_name(entry)}\n"
    yield f"{summary}\n"
    yield f"```\n{syntax(entry)}\n```"
    for note in notes:
        yield f"\n{note}"
    yield f"\n{' · '.join(filter(None, facts))}"


def full_name(entry: Command) -> str:
    return entry.name.replace("|", " ").upper()


def paragraphs(entry: Command) -> list[str]:
    """A handler's docstring: summary, syntax, and what else there is to say."""
    return (inspect.getdoc(entry.handler) or "").split("\n\n")


def syntax(entry: Command) -> str:
    """Of a handler with several names, the lines that begin with this one."""
    forms = re.split(r"\n(?=[A-Z])", paragraphs(entry)[1])
    return "\n".join(form for form in forms if f"{form} ".startswith(f"{full_name(entry)} "))


if __name__ == "__main__":
    TARGET.write_text(generate())
