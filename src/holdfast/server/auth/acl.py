"""Users, their selectors, the rules that change them, and the check of a command.

This file has no I/O: no sessions, no files, no configuration. server/core/users.py has all users.
acl_touches.py knows which keys and channels a command touches. acl_text.py writes rules out again.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.commands.table import CATEGORIES, TABLE, Command
from holdfast.errors import HoldfastError
from holdfast.glob import compile_glob
from holdfast.server.auth.acl_touches import (
    CHANNELS,
    READ,
    WRITE,
    keys_in,
    named_databases,
    touches_database,
)
from holdfast.server.config.directives import split_args


class RuleError(HoldfastError):
    """A rule that cannot be applied; the text is that of Redis."""


SYNTAX = "Syntax error"
UNKNOWN = "Unknown command or category name in ACL"
OF_SUBCOMMAND = "Allowing first-arg of a subcommand is not supported"
AFTER_ALL = (
    "Adding a pattern after the * pattern (or the '{}' flag) is not valid and does not have any"
    " effect. Try '{}' to start with an empty list of {}"
)
KEY_AFTER_ALL = AFTER_ALL.format("allkeys", "resetkeys", "patterns")
CHANNEL_AFTER_ALL = AFTER_ALL.format("allchannels", "resetchannels", "channels")
DATABASE_OUT_OF_RANGE = "The provided database ID is out of range"
NO_SUCH_PASSWORD = "The password you are trying to remove from the user does not exist"
BAD_HASH = (
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal"
    " characters"
)


HIGHEST_DATABASE = (1 << 31) - 1


class Denial(NamedTuple):
    reason: str  # database, command, key or channel, as in ACL LOG
    object: bytes
    position: int

    @property
    def weight(self) -> tuple[int, int]:
        """If several selectors deny a command, the denial of the greatest weight is reported: that
        of the selector whose check came furthest."""
        return ("database", "command", "key", "channel").index(self.reason), self.position


def all_commands() -> Iterator[Command]:
    """Every command, each followed by its subcommands."""
    for command in TABLE.values():
        yield command
        yield from command.subcommands.values()


def find_command(name: str) -> Command | None:
    parent, _, sub = name.lower().partition("|")
    command = TABLE.get(parent)
    return command if command is None or not sub else command.subcommands.get(sub)


# -- selectors ------------------------------------------------------------------------------------


class Selector:
    """One set of permissions. A command is allowed if one selector has all permissions that it
    needs."""

    __slots__ = (
        "all_channels",
        "all_keys",
        "channels",
        "commands",
        "databases",
        "first_args",
        "future",
        "keys",
    )

    def __init__(self, *, all_channels: bool) -> None:
        self.commands: set[str] = set()
        self.future = False  # whether commands of later versions are allowed: after +@all
        # The first arguments with which a command is allowed that is not allowed otherwise.
        self.first_args: dict[str, list[bytes]] = {}
        self.all_keys = False
        self.keys: dict[bytes, int] = {}  # by pattern: READ, WRITE, or both
        self.all_channels = all_channels
        self.channels: dict[bytes, None] = {}
        self.databases: frozenset[int] | None = None  # None: all

    def copy(self) -> "Selector":
        new = Selector(all_channels=self.all_channels)
        new.commands = set(self.commands)
        new.future = self.future
        new.first_args = {name: list(args) for name, args in self.first_args.items()}
        new.all_keys = self.all_keys
        new.keys = dict(self.keys)
        new.channels = dict(self.channels)
        new.databases = self.databases
        return new

    @property
    def is_unrestricted(self) -> bool:
        return (
            self.all_keys
            and self.all_channels
            and self.databases is None
            and self.future
            and all(command.name in self.commands for command in all_commands())
        )

    # -- the check ----------------------------------------------------------------------------

    def denies(self, command: Command, argv: Sequence[bytes], database: int) -> Denial | None:
        """The reason why the command is denied, or None. `database` is the number of the client's
        database."""
        name = command.name
        if self.databases is not None:
            for index in named_databases(command, argv):
                if index not in self.databases:
                    return Denial("database", b"%d" % index, 0)
            if name == "flushall" or (database not in self.databases and touches_database(command)):
                return Denial("database", name.encode(), 0)
        if name not in self.commands and "no_auth" not in command.flags:
            allowed = self.first_args.get(name, ())
            if len(argv) < 2 or argv[1].lower() not in map(bytes.lower, allowed):
                return Denial("command", name.encode(), 0)
        if not self.all_keys:
            for at, needs in keys_in(command, argv):
                if not self._may_touch(argv[at], needs):
                    return Denial("key", argv[at], at)
        if not self.all_channels and name in CHANNELS:
            start, stop, are_patterns = CHANNELS[name]
            for at, channel in enumerate(argv[start:stop], start):
                if not self.may_hear(channel, is_pattern=are_patterns):
                    return Denial("channel", channel, at)
        return None

    def _may_touch(self, key: bytes, needs: int) -> bool:
        return any(
            permitted & needs == needs and compile_glob(pattern)(key)
            for pattern, permitted in self.keys.items()
        )

    @property
    def may_read_all_keys(self) -> bool:
        return self.all_keys or bool(self.keys.get(b"*", 0) & READ)

    def may_hear(self, channel: bytes, *, is_pattern: bool) -> bool:
        """Whether a channel may be used. A pattern may be used only if exactly this pattern is in
        the rules, because it could match any channel."""
        if self.all_channels or (is_pattern and channel in self.channels):
            return True
        return not is_pattern and any(compile_glob(name)(channel) for name in self.channels)

    # -- rules --------------------------------------------------------------------------------

    def apply(self, rule: bytes) -> None:
        """Apply a rule. Raises RuleError."""
        word = rule.lower()
        first = rule[:1]
        if word in (b"allkeys", b"~*"):
            self.all_keys = True
            self.keys.clear()
        elif word == b"resetkeys":
            self.all_keys = False
            self.keys.clear()
        elif word in (b"allchannels", b"&*"):
            self.all_channels = True
            self.channels.clear()
        elif word == b"resetchannels":
            self.all_channels = False
            self.channels.clear()
        elif word in (b"allcommands", b"+@all", b"nocommands", b"-@all"):
            self.future = word in (b"allcommands", b"+@all")
            self.commands = {c.name for c in all_commands()} if self.future else set()
            self.first_args.clear()
        elif word == b"alldbs":
            self.databases = None
        elif word == b"resetdbs":
            self.databases = frozenset()
        elif word.startswith(b"db="):
            self.databases = _parse_databases(word[3:])
        elif first in (b"~", b"%"):
            self._add_keys(rule)
        elif first == b"&":
            self._add_channels(rule[1:])
        elif first in (b"+", b"-"):
            self._change_commands(rule[1:].decode("latin-1"), allow=first == b"+")
        else:
            raise RuleError(SYNTAX)

    def _add_keys(self, rule: bytes) -> None:
        if self.all_keys:
            raise RuleError(KEY_AFTER_ALL)
        found = re.fullmatch(rb"~(.*)|%(R|W|RW|WR)(?:~(.*))?", rule, re.DOTALL | re.IGNORECASE)
        if found is None:
            raise RuleError(SYNTAX)
        pattern = found[1] if found[2] is None else found[3] or b""
        letters = (found[2] or b"RW").upper()
        permitted = (READ if b"R" in letters else 0) | (WRITE if b"W" in letters else 0)
        _check_blanks(pattern)
        self.keys[pattern] = self.keys.get(pattern, 0) | permitted

    def _add_channels(self, pattern: bytes) -> None:
        if self.all_channels:
            raise RuleError(CHANNEL_AFTER_ALL)
        _check_blanks(pattern)
        self.channels[pattern] = None

    def _change_commands(self, name: str, *, allow: bool) -> None:
        if name.startswith("@"):
            if name[1:].lower() not in CATEGORIES:
                raise RuleError(UNKNOWN)
            of_category = (c for c in all_commands() if name[1:].lower() in c.categories)
            self._change(of_category, allow)
            return
        command = find_command(name)
        if command is None or name.endswith("|"):
            parent, _, argument = name.rpartition("|")
            if not allow or not parent:
                raise RuleError(UNKNOWN)
            self._add_first_arg(parent, argument)
            return
        self._change([command, *command.subcommands.values()], allow)

    def _add_first_arg(self, name: str, argument: str) -> None:
        command = find_command(name)
        if command is None:
            raise RuleError(UNKNOWN)
        if "|" in command.name:
            raise RuleError(OF_SUBCOMMAND)
        if not argument:
            raise RuleError(SYNTAX)
        if command.subcommands:
            raise RuleError(UNKNOWN)
        known = self.first_args.setdefault(command.name, [])
        value = argument.encode("latin-1")
        if value.lower() not in map(bytes.lower, known):
            known.append(value)

    def _change(self, commands: Iterator[Command] | list[Command], allow: bool) -> None:
        for command in commands:
            (self.commands.add if allow else self.commands.discard)(command.name)
            self.first_args.pop(command.name, None)


def _parse_databases(text: bytes) -> frozenset[int]:
    """The numbers of `db=0,1`."""
    words = text.split(b",")
    if not all(re.fullmatch(rb"-?[0-9]+", word) for word in words):
        raise RuleError(SYNTAX)
    if not all(len(word) < 11 and 0 <= int(word) <= HIGHEST_DATABASE for word in words):
        raise RuleError(DATABASE_OUT_OF_RANGE)
    return frozenset(map(int, words))


def _check_blanks(text: bytes) -> None:
    if has_blanks(text):
        raise RuleError(SYNTAX)


def has_blanks(text: bytes) -> bool:
    return any(byte in b" \t\n\v\f\r\0" for byte in text)


# -- users ----------------------------------------------------------------------------------------


class User:
    """A user. Rules change it in place, so sessions may keep a reference to it."""

    __slots__ = (
        "enabled",
        "is_unrestricted",
        "name",
        "nopass",
        "passwords",
        "sanitizing",
        "selectors",
    )

    def __init__(self, name: bytes, *, all_channels: bool) -> None:
        self.name = name
        self.enabled = False
        self.nopass = False
        self.sanitizing = b""  # only shown: payloads of RESTORE are always checked
        self.passwords: dict[bytes, None] = {}  # SHA-256, in hexadecimal
        self.selectors = [Selector(all_channels=all_channels)]
        self.is_unrestricted = False

    def changed(self, rules: Sequence[bytes], *, all_channels: bool) -> "User":
        """A copy of this user with the rules applied. Raises RuleError, whose second argument is
        the rule."""
        new = User(self.name, all_channels=all_channels)
        new.become(self)
        for rule in rules:
            try:
                new._apply(rule, all_channels)
            except RuleError as error:
                raise RuleError(str(error), rule) from None
        new.is_unrestricted = any(selector.is_unrestricted for selector in new.selectors)
        return new

    def become(self, other: "User") -> None:
        self.enabled = other.enabled
        self.nopass = other.nopass
        self.sanitizing = other.sanitizing
        self.passwords = dict(other.passwords)
        self.selectors = [selector.copy() for selector in other.selectors]
        self.is_unrestricted = other.is_unrestricted

    # -- the check ----------------------------------------------------------------------------

    def denies(self, command: Command, argv: Sequence[bytes], database: int) -> Denial | None:
        """The reason why no selector allows the command, or None if one does."""
        worst: Denial | None = None
        for selector in self.selectors:
            denial = selector.denies(command, argv, database)
            if denial is None:
                return None
            if worst is None or denial.weight > worst.weight:
                worst = denial
        return worst

    def may_hear(self, channel: bytes, *, is_pattern: bool) -> bool:
        return any(s.may_hear(channel, is_pattern=is_pattern) for s in self.selectors)

    def may_read_all_keys(self, command: Command, argv: Sequence[bytes], database: int) -> bool:
        """Whether all keys may be read. SORT needs this for BY and GET: their patterns may name any
        key, so single keys cannot be checked."""
        return any(
            s.may_read_all_keys and not s.denies(command, argv, database) for s in self.selectors
        )

    def accepts(self, password: bytes) -> bool:
        if not self.enabled:
            return False
        if self.nopass:
            return True
        import hmac

        given = hash_of(password)
        return any(hmac.compare_digest(given, known) for known in self.passwords)

    # -- rules --------------------------------------------------------------------------------

    def _apply(self, rule: bytes, all_channels: bool) -> None:
        word = rule.lower()
        if not rule:
            return
        if word in (b"on", b"off"):
            self.enabled = word == b"on"
        elif word in (b"sanitize-payload", b"skip-sanitize-payload"):
            self.sanitizing = word
        elif word in (b"nopass", b"resetpass"):
            self.nopass = word == b"nopass"
            self.passwords.clear()
        elif word == b"clearselectors":
            del self.selectors[1:]
        elif word == b"reset":
            self.enabled = self.nopass = False
            self.sanitizing = b"sanitize-payload"
            self.passwords.clear()
            self.selectors = [Selector(all_channels=all_channels)]
        elif rule[:1] in (b">", b"<", b"#", b"!"):
            self._change_password(rule[:1], rule[1:])
        elif rule[:1] == b"(" and rule[-1:] == b")":
            selector = Selector(all_channels=all_channels)
            for inner in split_args(rule[1:-1]) or ():
                selector.apply(inner)
            self.selectors.append(selector)
        else:
            self.selectors[0].apply(rule)

    def _change_password(self, kind: bytes, text: bytes) -> None:
        if kind in b"#!":
            if not re.fullmatch(rb"[0-9a-f]{64}", text):
                raise RuleError(BAD_HASH)
            hashed = text
        else:
            hashed = hash_of(text)
        if kind in b">#":
            self.passwords[hashed] = None
            self.nopass = False
        elif hashed not in self.passwords:
            raise RuleError(NO_SUCH_PASSWORD)
        else:
            del self.passwords[hashed]


def hash_of(password: bytes) -> bytes:
    import hashlib

    return hashlib.sha256(password).hexdigest().encode()


def with_selectors_joined(rules: Sequence[bytes]) -> list[bytes]:
    """Join the words of each selector, such as `(+get` and `~a)`, to one rule. Raises RuleError
    with the first word of a selector that is not closed."""
    joined: list[bytes] = []
    open_since: bytes | None = None
    for rule in rules:
        if open_since is not None:
            joined[-1] += b" " + rule
        else:
            joined.append(rule)
            if rule[:1] == b"(":
                open_since = rule
        if open_since is not None and rule[-1:] == b")":
            open_since = None
    if open_since is not None:
        raise RuleError(SYNTAX, open_since)
    return joined
