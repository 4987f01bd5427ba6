"""Commands of Redis that Holdfast does not have: each is registered, and its error has the reason.

The table has the data that COMMAND INFO shows of these commands, so that clients and access rules
find all of Redis's commands.
"""

from holdfast.commands.table import Handler, Keys, command, container, one
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.server.sessions.session import Session

# The text of a redis-server that is not part of a cluster: clients know it.
NO_CLUSTER = "ERR This instance has cluster support disabled"
NO_MODULES = "ERR Holdfast does not load modules: they are C libraries for redis-server"
NO_MIGRATION = "ERR Holdfast does not send keys to other servers: use DUMP and RESTORE instead"
NO_BACKUP = "ERR Holdfast has no append-only file to pin: use `holdfast backup` instead"
NO_IMPORT = "ERR Server is not in import mode"  # that of Valkey
GROUPS = {NO_CLUSTER: "cluster", NO_MIGRATION: "generic", NO_IMPORT: "connection"}  # others: server

ADMIN = "admin stale no_async_loading"
VALKEY = f"{ADMIN} valkey"
NOT_NOW = ("nondeterministic_output",)
SLOT_STATS = (*NOT_NOW, "request_policy:all_shards")
CLUSTERSCAN = (*NOT_NOW, "request_policy:special", "response_policy:special")


class MigratedKey(Keys):
    """The one key of MIGRATE. The argument is empty if the option KEYS names the keys."""

    def positions(self, argc: int, argv: list[bytes]) -> range:
        return range(0) if _option_keys(argv) else super().positions(argc, argv)


class MigratedKeys(Keys):
    """The keys behind the option KEYS of MIGRATE. (The word KEYS may also be a user or a
    password.)"""

    def positions(self, argc: int, argv: list[bytes]) -> range:
        return range(_option_keys(argv), argc) if _option_keys(argv) and not argv[3] else range(0)


def _option_keys(argv: list[bytes]) -> int:
    """The position behind the word KEYS, or 0."""
    at = 6
    while at < len(argv):
        word = argv[at].upper()
        if word == b"KEYS":
            return at + 1
        at += {b"AUTH": 2, b"AUTH2": 3}.get(word, 1)
    return 0


MIGRATED = (
    MigratedKey("RW access delete", 3),
    MigratedKeys("RW access delete incomplete", -2, -1, keyword="KEYS"),
)

KEYS = {"migrate": MIGRATED, "clusterscan": (one("not_key"),)}

# Name, arity, flags, categories that do not follow from the flags, tips, since, text of the error.
TABLE: tuple[tuple[str, int, str, str, tuple[str, ...], str, str], ...] = (
    ("asking", 1, "fast", "connection", (), "3.0.0", NO_CLUSTER),
    ("readonly", 1, "loading stale fast", "connection", (), "3.0.0", NO_CLUSTER),
    ("readwrite", 1, "loading stale fast", "connection", (), "3.0.0", NO_CLUSTER),
    ("cluster|addslots", -3, ADMIN, "", (), "3.0.0", NO_CLUSTER),
    ("cluster|addslotsrange", -4, ADMIN, "", (), "7.0.0", NO_CLUSTER),
    ("cluster|bumpepoch", 2, ADMIN, "", NOT_NOW, "3.0.0", NO_CLUSTER),
    ("cluster|count-failure-reports", 3, "admin stale", "", NOT_NOW, "3.0.0", NO_CLUSTER),
    ("cluster|countkeysinslot", 3, "stale", "", (), "3.0.0", NO_CLUSTER),
    ("cluster|delslots", -3, ADMIN, "", (), "3.0.0", NO_CLUSTER),
    ("cluster|delslotsrange", -4, ADMIN, "", (), "7.0.0", NO_CLUSTER),
    ("cluster|failover", -2, ADMIN, "", (), "3.0.0", NO_CLUSTER),
    ("cluster|flushslots", 2, ADMIN, "", (), "3.0.0", NO_CLUSTER),
    ("cluster|forget", 3, ADMIN, "", (), "3.0.0", NO_CLUSTER),
    ("cluster|getkeysinslot", 4, "stale", "", NOT_NOW, "3.0.0", NO_CLUSTER),
    ("cluster|help", 2, "loading stale", "", (), "5.0.0", NO_CLUSTER),
    ("cluster|info", 2, "stale", "", NOT_NOW, "3.0.0", NO_CLUSTER),
    ("cluster|keyslot", 3, "stale", "", (), "3.0.0", NO_CLUSTER),
    ("cluster|links", 2, "stale", "", NOT_NOW, "7.0.0", NO_CLUSTER),
    ("cluster|meet", -4, ADMIN, "", (), "3.0.0", NO_CLUSTER),
    ("cluster|myid", 2, "stale", "", (), "3.0.0", NO_CLUSTER),
    ("cluster|nodes", 2, "stale", "", NOT_NOW, "3.0.0", NO_CLUSTER),
    ("cluster|replicas", 3, "admin stale", "", NOT_NOW, "5.0.0", NO_CLUSTER),
    ("cluster|replicate", 3, ADMIN, "", (), "3.0.0", NO_CLUSTER),
    ("cluster|reset", -2, "admin noscript stale", "", (), "3.0.0", NO_CLUSTER),
    ("cluster|saveconfig", 2, ADMIN, "", (), "3.0.0", NO_CLUSTER),
    ("cluster|set-config-epoch", 3, ADMIN, "", (), "3.0.0", NO_CLUSTER),
    ("cluster|setslot", -4, ADMIN, "", (), "3.0.0", NO_CLUSTER),
    ("cluster|shards", 2, "stale", "", NOT_NOW, "7.0.0", NO_CLUSTER),
    ("cluster|slaves", 3, "admin stale", "", NOT_NOW, "3.0.0", NO_CLUSTER),
    ("cluster|slots", 2, "stale", "", NOT_NOW, "3.0.0", NO_CLUSTER),
    ("cluster|myshardid", 2, "loading stale", "", NOT_NOW, "7.2.0", NO_CLUSTER),
    ("cluster|slot-stats", -4, "loading stale", "", SLOT_STATS, "8.2.0", NO_CLUSTER),
    ("cluster|migration", -4, ADMIN, "", (), "8.4.0", NO_CLUSTER),
    (
        "cluster|flushslot",
        -3,
        "write admin no_async_loading valkey",
        "keyspace",
        (),
        "9.0.0",
        NO_CLUSTER,
    ),
    ("cluster|migrateslots", -4, VALKEY, "", (), "9.0.0", NO_CLUSTER),
    ("cluster|cancelslotmigrations", 2, VALKEY, "", (), "9.0.0", NO_CLUSTER),
    ("cluster|getslotmigrations", 2, VALKEY, "", (), "9.0.0", NO_CLUSTER),
    ("cluster|syncslots", -3, VALKEY, "", (), "9.0.0", NO_CLUSTER),
    ("sflush", -3, "write", "keyspace dangerous", (), "8.0.0", NO_CLUSTER),
    ("trimslots", -5, "write", "keyspace dangerous", (), "8.4.0", NO_CLUSTER),
    ("clusterscan", -2, "readonly valkey", "keyspace", CLUSTERSCAN, "9.1.0", NO_CLUSTER),
    ("backup|abort", 2, "admin noscript", "", (), "8.10.0", NO_BACKUP),
    ("backup|cleanup", 2, "admin noscript", "", (), "8.10.0", NO_BACKUP),
    ("backup|help", 2, "loading stale", "", (), "8.10.0", NO_BACKUP),
    ("backup|list", 2, "admin loading stale", "", (), "8.10.0", NO_BACKUP),
    ("backup|seal", 2, "admin noscript", "", (), "8.10.0", NO_BACKUP),
    ("backup|start", 2, "admin noscript", "", (), "8.10.0", NO_BACKUP),
    ("backup|status", 2, "admin loading stale", "", (), "8.10.0", NO_BACKUP),
    ("module|load", -3, "admin noscript no_async_loading", "", (), "4.0.0", NO_MODULES),
    ("module|loadex", -3, "admin noscript no_async_loading", "", (), "7.0.0", NO_MODULES),
    ("module|unload", 3, "admin noscript no_async_loading", "", (), "4.0.0", NO_MODULES),
    ("module|help", 2, "loading stale", "", (), "5.0.0", NO_MODULES),
    (
        "client|import-source",
        3,
        "noscript loading stale valkey",
        "connection",
        (),
        "8.1.0",
        NO_IMPORT,
    ),
    ("migrate", -6, "write", "keyspace dangerous", NOT_NOW, "2.6.0", NO_MIGRATION),
)


def _refusal(name: str, sentence: str) -> Handler:
    error = CommandError(sentence)

    def refuse(session: Session, argv: list[bytes]) -> Reply:
        raise error

    words = name.replace("|", " ").upper()
    refuse.__doc__ = f"Refused: {sentence.removeprefix('ERR ')}.\n\n{words} [argument ...]"
    return refuse


container("backup", -2, "", "Refused, with all its subcommands.", group="server", since="8.10.0")
container("cluster", -2, "", "Refused, with all its subcommands.", group="cluster", since="3.0.0")
container("module", -2, "", "Refused, except MODULE LIST.", group="server", since="4.0.0")
for _name, _arity, _flags, _categories, _tips, _since, _sentence in TABLE:
    command(
        _name,
        _arity,
        _flags,
        *KEYS.get(_name, ()),
        group=GROUPS.get(_sentence, "server"),
        since=_since,
        categories=_categories,
        tips=_tips,
    )(_refusal(_name, _sentence))


@command(
    "module|list",
    2,
    "admin noscript",
    group="server",
    since="4.0.0",
    tips=("nondeterministic_output_order",),
)
def module_list(session: Session, argv: list[bytes]) -> Reply:
    """The modules that are loaded: none.

    MODULE LIST
    """
    return []
