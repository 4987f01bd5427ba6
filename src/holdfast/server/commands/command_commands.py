"""COMMAND: the table of commands, for clients."""

from collections.abc import Iterable, Iterator
from functools import partial

from holdfast.commands.table import CATEGORIES, FLAGS, Command, Keys, command, help_reply
from holdfast.errors import SYNTAX, CommandError
from holdfast.glob import compile_glob
from holdfast.resp import Reply, SetReply, Simple
from holdfast.server.auth.acl_touches import access_now
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.session import Session

Commands = dict[str, Command]
about_commands = partial(command, flags="loading stale", group="server", categories="connection")
UNORDERED = ("nondeterministic_output_order",)


@about_commands("command", -1, since="2.8.13", tips=UNORDERED)
def command_(session: Session, argv: list[bytes]) -> Reply:
    """Describe all commands: arity, flags, keys, categories.

    COMMAND
    """
    return _all(session)


@about_commands("command|count", 2, since="2.8.13")
def count(session: Session, argv: list[bytes]) -> Reply:
    """Count the commands.

    COMMAND COUNT
    """
    return len(engine_of(session).commands.table)


@about_commands("command|info", -2, since="2.8.13", tips=UNORDERED)
def info(session: Session, argv: list[bytes]) -> Reply:
    """Describe some commands; null for a name that no command has.

    COMMAND INFO [name ...]
    """
    if len(argv) == 2:
        return _all(session)
    found = (_named(engine_of(session).commands.table, name) for name in argv[2:])
    return [None if entry is None else info_of(entry) for entry in found]


@about_commands("command|docs", -2, since="7.0.0", tips=UNORDERED)
def docs(session: Session, argv: list[bytes]) -> Reply:
    """Document some commands, or all: summary, version, group, subcommands.

    COMMAND DOCS [name ...]
    """
    table = engine_of(session).commands.table
    if len(argv) == 2:
        return {name.encode(): _docs_of(entry) for name, entry in table.items()}
    found = (_named(table, name) for name in argv[2:])
    return {entry.name.encode(): _docs_of(entry) for entry in found if entry is not None}


@about_commands("command|list", -2, since="7.0.0", tips=UNORDERED)
def list_(session: Session, argv: list[bytes]) -> Reply:
    """Name all commands and subcommands, or those that a filter lets through.

    COMMAND LIST [FILTERBY MODULE module | ACLCAT category | PATTERN pattern]
    """
    entries = _with_subcommands(engine_of(session).commands.table)
    if len(argv) == 2:
        return tuple(name.encode() for name, _ in entries)
    if len(argv) != 5 or argv[2].upper() != b"FILTERBY":
        raise SYNTAX
    kind, wanted = argv[3].upper(), argv[4]
    if kind == b"MODULE":
        return []
    if kind == b"ACLCAT":
        category = wanted.decode("latin-1").lower()
        return tuple(name.encode() for name, entry in entries if category in entry.categories)
    if kind == b"PATTERN":
        return tuple(
            filter(compile_glob(wanted, nocase=True), (name.encode() for name, _ in entries))
        )
    raise SYNTAX


@about_commands("command|getkeys", -4, since="2.8.13")
def getkeys(session: Session, argv: list[bytes]) -> Reply:
    """Find the keys in a whole command.

    COMMAND GETKEYS command [arg ...]
    """
    return tuple(name for name, _ in _keys_in(session, argv[2:]))


@about_commands("command|getkeysandflags", -4, since="7.0.0")
def getkeysandflags(session: Session, argv: list[bytes]) -> Reply:
    """Find the keys in a whole command, and how it accesses each.

    COMMAND GETKEYSANDFLAGS command [arg ...]
    """
    return [[name, _statuses(access.split())] for name, access in _keys_in(session, argv[2:])]


@about_commands("command|help", 2, since="5.0.0")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of COMMAND.

    COMMAND HELP
    """
    return help_reply(
        "COMMAND",
        """
        (no subcommand)
            Describe all commands.
        COUNT
            Count the commands.
        LIST [FILTERBY MODULE <name> | ACLCAT <category> | PATTERN <pattern>]
            Name all commands, or those that the filter lets through.
        INFO [<command> ...]
            Describe these commands, or all.
        DOCS [<command> ...]
            Document these commands, or all.
        GETKEYS <command> <arg> ...
            Find the keys in a command.
        GETKEYSANDFLAGS <command> <arg> ...
            Find the keys in a command, and how it accesses each.
        """,
    )


# -- finding --------------------------------------------------------------------------------------


def _named(table: Commands, name: bytes) -> Command | None:
    """The command of a full name, as in `config|get`."""
    container, _, subcommand = name.decode("latin-1").lower().partition("|")
    entry = table.get(container)
    return entry.subcommands.get(subcommand) if entry and subcommand else entry


def _with_subcommands(table: Commands) -> Iterator[tuple[str, Command]]:
    for name, entry in table.items():
        yield name, entry
        for sub in entry.subcommands.values():
            yield sub.name, sub


def _keys_in(session: Session, argv: list[bytes]) -> list[tuple[bytes, str]]:
    """The keys of an argv with their access."""
    try:
        entry, _ = engine_of(session).commands.find(argv)
    except CommandError:
        raise CommandError("ERR Invalid command specified") from None
    if all(spec.access == "not_key" for spec in entry.keys):
        raise CommandError("ERR The command has no key arguments")
    if not entry.min_args <= len(argv) <= entry.max_args:
        raise CommandError("ERR Invalid number of arguments specified for command")
    try:
        found = [
            (argv[at], _access(entry, spec, argv))
            for spec in entry.keys
            for at in spec.positions(len(argv), argv)
        ]
    except (ValueError, IndexError):  # the number of keys is malformed or too large
        found = []
    if not found and "no_mandatory_keys" not in entry.flags:
        raise CommandError("ERR Invalid arguments specified for command")
    return found


def _access(entry: Command, spec: Keys, argv: list[bytes]) -> str:
    is_variable = "variable_flags" in spec.access
    return access_now(entry.name, argv) if is_variable else spec.access


# -- showing --------------------------------------------------------------------------------------


def _all(session: Session) -> Reply:
    return [info_of(entry, name) for name, entry in engine_of(session).commands.table.items()]


def info_of(entry: Command, name: str | None = None) -> Reply:
    flags = entry.flags | ({"movablekeys"} if entry.has_movable_keys else set())
    return [
        (name or entry.name).encode(),
        entry.arity,
        _statuses(flag for flag in FLAGS if flag in flags),
        *entry.key_range,
        _statuses(f"@{category}" for category in CATEGORIES if category in entry.categories),
        SetReply(tip.encode() for tip in entry.tips),
        SetReply(_spec(spec) for spec in entry.keys),
        # An array; without elements it is an empty set, as in Redis.
        [info_of(sub) for sub in entry.subcommands.values()] or SetReply(),
    ]


def _statuses(names: Iterable[str]) -> SetReply:
    return SetReply(Simple(name.encode()) for name in names)


def _spec(spec: Keys) -> Reply:
    begin: Reply
    find: Reply
    if spec.unknown:
        begin = find = {b"type": b"unknown", b"spec": {}}
    else:
        if spec.keyword:
            place: Reply = {b"keyword": spec.keyword.encode(), b"startfrom": spec.first}
            begin = {b"type": b"keyword", b"spec": place}
        else:
            index = spec.first if spec.count_at is None else spec.count_at
            begin = {b"type": b"index", b"spec": {b"index": index}}
        if spec.count_at is not None:
            rule: Reply = {b"keynumidx": 0, b"firstkey": 1, b"keystep": spec.step}
            find = {b"type": b"keynum", b"spec": rule}
        else:
            rule = {b"lastkey": spec.last, b"keystep": spec.step, b"limit": spec.limit}
            find = {b"type": b"range", b"spec": rule}
    notes: dict[bytes, Reply] = {b"notes": spec.notes.encode()} if spec.notes else {}
    return notes | {
        b"flags": _statuses(spec.access.split()),
        b"begin_search": begin,
        b"find_keys": find,
    }


def _docs_of(entry: Command) -> Reply:
    facts: dict[bytes, Reply] = {
        b"summary": entry.summary.encode(),
        b"since": entry.since.encode(),
        b"group": entry.group.encode(),
    }
    if entry.subcommands:
        facts[b"subcommands"] = {
            sub.name.encode(): _docs_of(sub) for sub in entry.subcommands.values()
        }
    return facts
