"""The table of commands, the only place that describes a command. Arity errors, COMMAND, ACL
categories, the denial of commands in scripts, statistics and docs/commands.md all read it.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from holdfast.commands.context import Result
from holdfast.resp import Reply, Simple

# The first argument is a Context, or a Session for the commands of the server.
Handler = Callable[[Any, list[bytes]], Result]

ANY_NUMBER: Final = 1 << 61  # of arguments; for larger numbers compiled code needs an object

_LEADING_INTEGER = re.compile(rb"\s*[+-]?[0-9]+").match  # as COMMAND GETKEYS of Redis reads numbers

# The flags in the order in which COMMAND shows them. Other flags are our own, or Redis does not
# show them. `valkey`: the command comes from Valkey, and `since` is a version of Valkey.
FLAGS = (
    *("write", "readonly", "denyoom", "module", "admin", "pubsub", "noscript", "blocking"),
    *("loading", "stale", "skip_monitor", "skip_slowlog", "asking", "fast", "no_auth"),
    *("no_mandatory_keys", "no_async_loading", "no_multi", "movablekeys", "allow_busy"),
)
CATEGORIES = (
    *("keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap"),
    *("hyperloglog", "geo", "stream", "pubsub", "admin", "fast", "slow", "blocking"),
    *("dangerous", "connection", "transaction", "scripting"),
)


class Keys:
    """The positions of keys in an argv, and the access of the command to them.

    `first` is the index of the first key. With `keyword` it is the index where the search for that
    word begins (negative: search backwards from the end), and the keys begin after the word. With
    `count_at`, that argument is the number of the keys that follow it. Otherwise the keys end at
    `last` (negative: counted from the end), and with `limit` 2 only the first half of them are
    keys. Keys are `step` arguments apart. `unknown`: no such rule finds the keys.
    """

    def __init__(
        self,
        access: str,  # "RW access delete": the flags of the key specification in COMMAND INFO
        first: int = 1,
        last: int = 0,  # relative to `first` when >= 0
        step: int = 1,
        count_at: int | None = None,
        keyword: str = "",
        limit: int = 0,
        unknown: bool = False,
        notes: str = "",  # the notes in COMMAND INFO
    ) -> None:
        self.access = access
        self.first = first
        self.last = last
        self.step = step
        self.count_at = count_at
        self.keyword = keyword
        self.limit = limit
        self.unknown = unknown
        self.notes = notes

    @property
    def is_range(self) -> bool:
        return self.count_at is None and not self.keyword and not self.unknown

    def positions(self, argc: int, argv: list[bytes]) -> range:
        if self.unknown:
            return range(0)
        if self.count_at is not None:
            first = self.count_at + 1
            digits = _LEADING_INTEGER(argv[self.count_at])
            return range(first, first + int(digits[0]) * self.step if digits else first, self.step)
        first = self._after_keyword(argv) if self.keyword else self.first
        if not first:
            return range(0)
        last = first + self.last if self.last >= 0 else argc + self.last
        if self.limit > 1 and self.last < 0:
            last = first + (last - first + 1) // self.limit - 1
        return range(first, last + 1, self.step)

    def _after_keyword(self, argv: list[bytes]) -> int:
        """The index after the word, or 0 if the word is missing."""
        word = self.keyword.encode()
        at = (
            range(self.first, len(argv))
            if self.first >= 0
            else range(len(argv) + self.first, 0, -1)
        )
        return next((index + 1 for index in at if argv[index].upper() == word), 0)


def one(access: str, at: int = 1, notes: str = "") -> Keys:
    return Keys(access, at, notes=notes)


def many(access: str, first: int = 1, last: int = -1, step: int = 1) -> Keys:
    return Keys(access, first, last, step)


def counted(access: str, count_at: int, step: int = 1) -> Keys:
    return Keys(access, count_at + 1, step=step, count_at=count_at)


class Command:
    def __init__(
        self,
        name: str,  # lower case; "client|kill" for a subcommand
        arity: int,  # the number of arguments; negative: the least number
        flags: frozenset[str],
        keys: tuple[Keys, ...],
        group: str,
        since: str,
        handler: Handler,
        summary: str,
        categories: frozenset[str],
        tips: tuple[str, ...],
    ) -> None:
        self.name = name
        self.arity = arity
        self.flags = flags
        self.keys = keys
        self.group = group
        self.since = since
        self.handler = handler
        self.summary = summary
        self.categories = categories
        self.tips = tips
        self.subcommands: dict[str, Command] = {}
        # The bounds of the length of an argv, name included.
        self.min_args = abs(arity)
        self.max_args = arity if arity > 0 else ANY_NUMBER
        self.is_allowed_in_multi = "no_multi" not in flags
        # MULTI queues it, instead of running or refusing it.
        self.is_queued = flags.isdisjoint(("no_multi", "no_multi_queue"))

    @property
    def is_write(self) -> bool:
        return "write" in self.flags

    @property
    def key_range(self) -> tuple[int, int, int]:
        """First, last and step: the older description of keys, before key specifications."""
        ranges = [spec for spec in self.keys if spec.is_range]
        if not ranges:
            return 0, 0, 0
        if len(self.keys) == 1:
            step = ranges[0].step
            return ranges[0].first, ranges[0].first * (ranges[0].last >= 0) + ranges[0].last, step
        lasts = [spec.first * (spec.last >= 0) + spec.last for spec in ranges]
        last = min(lasts) if min(lasts) < 0 else max(lasts)
        return min(spec.first for spec in ranges), last, 1

    @property
    def has_movable_keys(self) -> bool:
        return not all(spec.is_range for spec in self.keys)

    @property
    def needs_only_rows(self) -> bool:
        """Whether the command needs no element of its keys: it asks for their type or size, changes
        their expiry or name, or removes them."""
        return "only_rows" in self.flags

    def key_names(self, argv: list[bytes], without: str = "not_key") -> list[bytes]:
        """The keys in a well-formed argv, except those whose access begins with `without`, such as
        OW (overwritten)."""
        return [
            argv[at]
            for spec in self.keys
            if spec.access != "not_key" and not spec.access.startswith(without)
            for at in spec.positions(len(argv), argv)
        ]


TABLE: dict[str, Command] = {}


def container(
    name: str,
    arity: int,
    flags: str,
    summary: str,
    *,
    group: str,
    since: str,
    categories: str = "",
    tips: tuple[str, ...] = (),
) -> None:
    """Register a command that has only subcommands. These are registered as `name|sub`."""

    def handler(_: object, argv: list[bytes]) -> Result:
        raise AssertionError(f"{name} is a container")

    handler.__doc__ = summary
    command(name, arity, flags, group=group, since=since, categories=categories, tips=tips)(handler)


def command(
    name: str,
    arity: int,
    flags: str,
    *keys: Keys,
    group: str,
    since: str,
    categories: str = "",
    tips: tuple[str, ...] = (),
) -> Callable[[Handler], Handler]:
    """Register a handler. The first line of its docstring is the summary in the documentation.

    `categories` names the ACL categories that do not follow from the flags.
    """

    def register(handler: Handler) -> Handler:
        flag_set = frozenset(flags.split())
        entry = Command(
            name,
            arity,
            flag_set,
            keys,
            group,
            since,
            handler,
            summary=(handler.__doc__ or "").strip().split("\n")[0],
            categories=_all_categories(flag_set, categories.split()),
            tips=tips,
        )
        container, _, subcommand = name.partition("|")
        place = TABLE[container].subcommands if subcommand else TABLE
        assert name not in place, f"{name} is registered twice"
        place[subcommand or name] = entry
        return handler

    return register


def _all_categories(flags: frozenset[str], named: list[str]) -> frozenset[str]:
    implied = {
        "write": "write",
        "readonly": "read",
        "admin": "admin dangerous",
        "pubsub": "pubsub",
        "fast": "fast",
        "blocking": "blocking",
    }
    names = {word for flag in flags for word in implied.get(flag, "").split()}
    if "fast" not in flags:
        names.add("slow")
    if "scripting" in named:
        names.discard("read")  # for Redis a read-only script is not in @read
    return frozenset(names.union(named))


def help_reply(container: str, text: str) -> Reply:
    """The reply to `CONTAINER HELP`. In `text` a subcommand stands at the margin, and its indented
    description follows."""
    from textwrap import dedent  # the import takes two milliseconds, and few clients need it

    lines = [
        f"{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        *dedent(text).strip().split("\n"),
        "HELP",
        "    Prints this help.",
    ]
    return [Simple(line.encode()) for line in lines]
