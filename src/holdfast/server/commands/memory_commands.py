"""MEMORY: how much memory is used, and for what."""

import gc
import sys
from functools import partial

from holdfast.commands.args import Options
from holdfast.commands.table import command, container, help_reply, one
from holdfast.errors import SYNTAX
from holdfast.resp import OK, Reply, Verbatim
from holdfast.server.core.engine import engine_of
from holdfast.server.features.meter import resident_bytes
from holdfast.server.sessions.session import Session
from holdfast.store.memory.key import KEY_OVERHEAD

FEW_BYTES = 5 << 20  # a smaller amount is not reported

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
    engine = engine_of(session)
    keyspace, scripts = engine.keyspace, engine.scripts
    data, resident = keyspace.used_bytes, resident_bytes()
    backlog, replicas = engine.primary.backlog, engine.primary.replicas
    clients = sum(each.memory_bytes for each in engine.sessions.values())
    used = data + clients  # as INFO has it
    peak = max(engine.meter.peak_bytes, used)
    hot = sum(len(database.space.keys) for database in keyspace.databases)
    in_memory = hot + sum(database.space.packed_count for database in keyspace.databases)
    reply: dict[bytes, Reply] = {
        b"peak.allocated": peak,
        b"total.allocated": used,
        b"startup.allocated": 0,
        b"replication.backlog": 0 if backlog is None else backlog.kept_bytes,
        b"clients.slaves": sum(each.memory_bytes for each in replicas),
        b"clients.normal": sum(
            each.memory_bytes for each in engine.sessions.values() if each not in replicas
        ),
        b"cluster.links": 0,
        b"aof.buffer": 0,
        b"lua.caches": scripts.cache.text_bytes,
        b"functions.caches": scripts.functions.used_bytes,
    }
    for database in keyspace.databases:
        if len(database):
            reply[b"db.%d" % database.index] = {
                b"overhead.hashtable.main": len(database.space.keys) * KEY_OVERHEAD,
                b"overhead.hashtable.expires": 0,
                b"overhead.hashtable.slot-to-keys": 0,
            }
    return reply | {
        b"overhead.total": clients + hot * KEY_OVERHEAD,
        b"keys.count": sum(map(len, keyspace.databases)),
        b"keys.bytes-per-key": data // in_memory if in_memory else 0,
        b"dataset.bytes": data - hot * KEY_OVERHEAD,
        b"dataset.percentage": 100.0 * (data - hot * KEY_OVERHEAD) / used if used else 0.0,
        b"peak.percentage": 100.0 * used / peak if peak else 100.0,
        b"fragmentation": resident / used if used else 0.0,
        b"fragmentation.bytes": max(0, resident - used),
    }


@question("memory|doctor", 2, "")
def doctor(session: Session, argv: list[bytes]) -> Reply:
    """Whether the use of memory looks healthy.

    MEMORY DOCTOR
    """
    engine = engine_of(session)
    used, limit = engine.keyspace.used_bytes, engine.config.maxmemory
    resident, peak = resident_bytes(), engine.meter.peak_bytes
    findings = []
    if limit and used > limit:
        findings.append(
            f"Values take more than maxmemory allows ({limit})."
            + (
                " The policy deletes keys."
                if engine.condition.deletion is not None
                else " Values that the file has are dropped from memory; newer ones must stay."
            )
        )
    if peak > 1.5 * used and peak > FEW_BYTES:
        findings.append(
            f"Values took {peak} bytes before; Python may not have returned all of that."
        )
    if resident > 4 * used and used > FEW_BYTES:
        findings.append(
            f"The process takes {resident} bytes: many small values take more than is counted."
        )
    findings += [
        f"Client {each.id} does not read its replies."
        for each in engine.sessions.values()
        if each.sink.output_bytes > FEW_BYTES
    ]
    text = [f"Values take {used} bytes.", *(findings or ["Nothing looks wrong."])]
    return Verbatim("\n".join(text).encode())


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
    """The statistics of the allocator.

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
            The statistics of the allocator.
        PURGE
            Give back memory that nothing uses.
        STATS
            Where the memory goes.
        USAGE <key> [SAMPLES <count>]
            About how many bytes the key takes.
        """,
    )
