"""MEMORY: how much of it is used, and for what."""

import gc
import sys
from functools import partial

from holdfast.commands.args import Options
from holdfast.commands.table import command, container, help_reply, one
from holdfast.errors import SYNTAX
from holdfast.resp import OK, Reply, Verbatim
from holdfast.server.meter import resident_bytes
from holdfast.server.session import Session

EVERY_SHARD = ("request_policy:all_shards", "response_policy:special")

subcommand = partial(command, group="server", since="4.0.0")
question = partial(subcommand, tips=("nondeterministic_output", *EVERY_SHARD))

container("memory", -2, "", "How memory is used.", group="server", since="4.0.0")


@subcommand("memory|usage", -3, "readonly", one("RO", 2))
def usage(session: Session, argv: list[bytes]) -> Reply:
    """About how many bytes a key and its value take in memory.

    MEMORY USAGE key [SAMPLES count]

    All elements are counted, so SAMPLES changes nothing.
    """
    options = Options(argv, 3)
    while options:
        if options.word() != b"SAMPLES" or options.integer() < 0:
            raise SYNTAX
    key = session.db.peek(argv[2])
    return None if key is None else key.nbytes


@question("memory|stats", 2, "")
def stats(session: Session, argv: list[bytes]) -> Reply:
    """Where the memory goes, in bytes.

    MEMORY STATS
    """
    engine = session.engine
    keyspace = engine.keyspace
    used, resident = keyspace.used_bytes, resident_bytes()
    hot = sum(len(database.space.keys) for database in keyspace.databases)
    reply: dict[bytes, Reply] = {
        b"peak.allocated": max(engine.meter.peak_bytes, used),
        b"total.allocated": used,
        b"startup.allocated": 0,
        b"replication.backlog": 0,
        b"clients.normal": sum(each.sink.output_bytes for each in engine.sessions.values()),
        b"keys.count": sum(map(len, keyspace.databases)),
        b"keys.bytes-per-key": used // hot if hot else 0,
        b"dataset.bytes": used,
        b"dataset.percentage": 100.0 * used / resident if resident else 0.0,
        b"fragmentation": resident / used if used else 0.0,
        b"fragmentation.bytes": max(0, resident - used),
    }
    return reply


@question("memory|doctor", 2, "")
def doctor(session: Session, argv: list[bytes]) -> Reply:
    """Whether the use of memory looks healthy.

    MEMORY DOCTOR
    """
    used, limit = session.engine.keyspace.used_bytes, session.engine.config.maxmemory
    if limit and used > limit:
        return Verbatim(
            b"Values take %d bytes, more than maxmemory allows (%d). What the file has already is"
            b" dropped from memory first; what it does not have yet cannot be." % (used, limit)
        )
    return Verbatim(b"Values take %d bytes. Nothing looks wrong." % used)


@subcommand(
    "memory|purge", 2, "", tips=("request_policy:all_shards", "response_policy:all_succeeded")
)
def purge(session: Session, argv: list[bytes]) -> Reply:
    """Give back memory that nothing uses.

    MEMORY PURGE
    """
    gc.collect()
    return OK


@question("memory|malloc-stats", 2, "")
def malloc_stats(session: Session, argv: list[bytes]) -> Reply:
    """What the allocator says.

    MEMORY MALLOC-STATS
    """
    return Verbatim(b"%d blocks allocated by Python\n" % sys.getallocatedblocks())


@subcommand("memory|help", 2, "loading stale")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands.

    MEMORY HELP
    """
    return help_reply(
        "MEMORY",
        """
        DOCTOR
            Whether the use of memory looks healthy.
        MALLOC-STATS
            What the allocator says.
        PURGE
            Give back memory that nothing uses.
        STATS
            Where the memory goes.
        USAGE <key> [SAMPLES <count>]
            About how many bytes the key takes.
        """,
    )
