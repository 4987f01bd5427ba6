"""The one table of commands. Arity errors, COMMAND, ACL categories, script denial, statistics
and docs/commands.md all read it; nothing else says what a command is.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any, Final

from holdfast.commands.context import Result
from holdfast.resp import Reply, Simple

# The first argument is a Context, or a Session for the families of the server.
Handler = Callable[[Any, list[bytes]], Result]

ANY_NUMBER: Final = 1 << 61  # of arguments; larger numbers are objects to compiled code

_LEADING_INTEGER = re.compile(rb"\s*[+-]?[0-9]+").match  # COMMAND GETKEYS is as lax as Redis's

# In the order in which COMMAND shows them. Flags that are not here are ours, or Redis hides them.
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


@dataclass(frozen=True, slots=True)
class Keys:
    """Where keys stand in an argv, and what the command does to them.

    `first` is an index, or with `keyword` where to look for that word (negative: backwards, from
    the end), after which they begin. With `count_at` the number of keys stands there and they
    follow it; else they run to `last` (negative: from the end) by `step`, of which `limit` 2
    takes the first half. `unknown`: no rule finds them.
    """

    access: str  # "RW access delete": how, then why, as COMMAND INFO shows it
    first: int = 1
    last: int = 0  # relative to `first` when >= 0
    step: int = 1
    count_at: int | None = None
    keyword: str = ""
    limit: int = 0
    unknown: bool = False
    notes: str = ""  # as COMMAND INFO shows them

    @property
    def is_range(self) -> bool:
        return self.count_at is None and not self.keyword and not self.unknown

    def positions(self, argc: int, argv: list[bytes]) -> range:
        if self.unknown:
            return range(0)
        if self.count_at is not None:
            first = self.count_at + 1
            digits = _LEADING_INTEGER(argv[self.count_at])
            return range(first, first + int(digits[0]) if digits else first)
        first = self._after_keyword(argv) if self.keyword else self.first
        if not first:
            return range(0)
        last = first + self.last if self.last >= 0 else argc + self.last
        if self.limit > 1 and self.last < 0:
            last = first + (last - first + 1) // self.limit - 1
        return range(first, last + 1, self.step)

    def _after_keyword(self, argv: list[bytes]) -> int:
        """Where the word is, plus one; 0 when it is not there."""
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


def counted(access: str, count_at: int) -> Keys:
    return Keys(access, count_at + 1, count_at=count_at)


@dataclass(slots=True)
class Command:
    name: str  # lower case; "client|kill" for a subcommand
    arity: int  # negative: at least
    flags: frozenset[str]
    keys: tuple[Keys, ...]
    group: str
    since: str
    handler: Handler
    summary: str
    categories: frozenset[str] = frozenset()
    tips: tuple[str, ...] = ()
    subcommands: "dict[str, Command]" = field(default_factory=dict)

    # How many arguments, the name included, an argv may have: arity, ready to compare with.
    min_args: int = field(init=False)
    max_args: int = field(init=False)
    is_allowed_in_multi: bool = field(init=False)
    is_queued: bool = field(init=False)  # in a transaction, rather than run or refused

    def __post_init__(self) -> None:
        self.is_allowed_in_multi = "no_multi" not in self.flags
        self.is_queued = self.flags.isdisjoint(("no_multi", "no_multi_queue"))
        self.min_args = abs(self.arity)
        self.max_args = self.arity if self.arity > 0 else ANY_NUMBER

    @property
    def is_write(self) -> bool:
        return "write" in self.flags

    @property
    def key_range(self) -> tuple[int, int, int]:
        """First, last and step, as clients knew keys before there were specifications."""
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

    def key_names(self, argv: list[bytes]) -> list[bytes]:
        """The keys in a well-formed argv."""
        return [
            argv[at]
            for spec in self.keys
            if spec.access != "not_key"
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
    """Register a command that has nothing but subcommands, which register as `name|sub`."""

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
    """Register a handler. Its docstring's first line is the summary that users read.

    `categories` names those ACL categories that the flags do not imply.
    """

    def register(handler: Handler) -> Handler:
        flag_set = frozenset(flags.split())
        entry = Command(
            name=name,
            arity=arity,
            flags=flag_set,
            keys=keys,
            group=group,
            since=since,
            handler=handler,
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
        names.discard("read")  # a script that may not write is no read, says Redis
    return frozenset(names.union(named))


def help_reply(container: str, text: str) -> Reply:
    """The answer to `CONTAINER HELP`: `text` has a subcommand at the margin, what it does below."""
    lines = [
        f"{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        *dedent(text).strip().split("\n"),
        "HELP",
        "    Prints this help.",
    ]
    return [Simple(line.encode()) for line in lines]
