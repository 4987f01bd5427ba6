"""Every metric, once: its name, type, labels, meaning, and the source of its value.

Nothing is counted for a metric: each reads numbers that INFO, LATENCY and INFO commandstats show.
The table in docs/guide-metrics.md is generated from this table. This file knows nothing of
prometheus_client. It is long because it is one table: a reader finds every metric in one place.
"""

import os
import platform
import resource
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from holdfast._version import __version__
from holdfast.server.commands.info import expiring_keys
from holdfast.server.core.engine import Engine
from holdfast.server.features.latency import Histogram, Stats
from holdfast.server.features.meter import resident_bytes
from holdfast.server.features.peers import LinkFacts
from holdfast.server.http.coordination_metrics import Labels, SemaphoreCount, builds, semaphores
from holdfast.server.http.readiness import why_not_ready
from holdfast.server.version import IS_COMPILED
from holdfast.store.file.wal import wal_path
from holdfast.store.store import FileStore

MOST_EXPIRING = 5000  # keys that are counted one by one, which takes 2 ms
MOST_ERRORS = 50  # codes of errors; scripts can invent any number of codes


class Type(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Scrape:
    """One answer to `/metrics`. Values that several metrics read are computed once."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @cached_property
    def semaphores(self) -> dict[Labels, SemaphoreCount]:
        return semaphores(self.engine)

    @cached_property
    def links(self) -> list[LinkFacts]:
        peers = self.engine.peers
        return [] if peers is None else list(peers.links())


Sample = tuple[Labels, float | Histogram]
Source = Callable[[Scrape], Iterable[Sample]]


@dataclass(frozen=True)
class Metric:
    name: str
    type: Type
    meaning: str
    source: Source
    labels: Labels = ()


def _one(count: Callable[[Engine], float]) -> Source:
    return lambda scrape: [((), count(scrape.engine))]


def _of_file(count: Callable[[Engine, FileStore], float]) -> Source:
    """A source that has no value for a database in memory."""

    def source(scrape: Scrape) -> Iterator[Sample]:
        store = scrape.engine.store
        if isinstance(store, FileStore):
            yield (), count(scrape.engine, store)

    return source


def _of_commands(count: Callable[[Stats], float | Histogram]) -> Source:
    """One value for each command that was called at least once."""

    def source(scrape: Scrape) -> Iterator[Sample]:
        for name, stats in list(scrape.engine.commands.stats.items()):
            if stats.total_ns or stats.rejected or stats.failed:
                yield (name,), count(stats)

    return source


def _of_peers(count: Callable[[LinkFacts], float | None]) -> Source:
    def source(scrape: Scrape) -> Iterator[Sample]:
        for link in scrape.links:
            value = count(link)
            if value is not None:
                yield (str(link.node), link.address), value

    return source


def _of_semaphores(count: Callable[[SemaphoreCount], int]) -> Source:
    def source(scrape: Scrape) -> Iterator[Sample]:
        for labels, counts in scrape.semaphores.items():
            yield labels, count(counts)

    return source


def _build(_: Scrape) -> Iterator[Sample]:
    yield (__version__, "yes" if IS_COMPILED else "no", platform.python_version()), 1


def _cpu(_: Scrape) -> Iterator[Sample]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield ("user",), usage.ru_utime
    yield ("system",), usage.ru_stime


def _errors(scrape: Scrape) -> Iterator[Sample]:
    codes = scrape.engine.invoker.error_stats.most_common()
    for code, count in codes[:MOST_ERRORS]:
        yield (code[:100].decode("utf-8", "backslashreplace"),), count
    if len(codes) > MOST_ERRORS:
        yield ("other",), sum(count for _, count in codes[MOST_ERRORS:])


def _keys(scrape: Scrape) -> Iterator[Sample]:
    for database in scrape.engine.keyspace.databases:
        if len(database):
            yield (str(database.index),), len(database)


def _expiring(scrape: Scrape) -> Iterator[Sample]:
    keyspace = scrape.engine.keyspace
    expiring = expiring_keys(keyspace, MOST_EXPIRING)
    for database in keyspace.databases:
        if len(database):
            yield (str(database.index),), min(expiring[database.space.id], len(database))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _free_bytes(store: FileStore) -> float:
    """The free space for a user without privileges; NaN if the folder is gone."""
    try:
        disk = os.statvfs(store.path.parent)
    except OSError:
        return float("nan")
    return disk.f_bavail * disk.f_frsize


def _disk_bytes(store: FileStore) -> float:
    try:
        disk = os.statvfs(store.path.parent)
    except OSError:
        return float("nan")
    return disk.f_blocks * disk.f_frsize


def _lag_s(link: LinkFacts) -> float:
    return float("inf") if link.lag_s is None else link.lag_s


_COUNTER, _GAUGE, _HISTOGRAM = Type.COUNTER, Type.GAUGE, Type.HISTOGRAM
_PEER = ("node", "address")
_SEMAPHORE = ("db", "namespace", "semaphore")

# The metrics by section of the guide. Most sections are also a row of the dashboard.
SECTIONS: dict[str, tuple[Metric, ...]] = {
    "The server": (
        Metric(
            "holdfast_build_info",
            _GAUGE,
            "Always 1. The labels say which Holdfast runs.",
            _build,
            ("version", "compiled", "python"),
        ),
        Metric(
            "holdfast_ready",
            _GAUGE,
            "1 if `/ready` says that the server is ready, else 0.",
            _one(lambda engine: float(why_not_ready(engine) is None)),
        ),
        Metric(
            "holdfast_uptime_seconds",
            _GAUGE,
            "Time since the start.",
            _one(lambda engine: engine.clock.monotonic_s() - engine.meter.started_s),
        ),
        Metric(
            "holdfast_cpu_seconds_total",
            _COUNTER,
            "Time of all threads on a processor.",
            _cpu,
            ("mode",),
        ),
    ),
    "Traffic": (
        Metric(
            "holdfast_command_duration_seconds",
            _HISTOGRAM,
            "How long calls of a command took, until the reply was ready. Its count is the number"
            " of calls. LATENCY HISTOGRAM shows the same calls.",
            _of_commands(lambda stats: stats),
            ("command",),
        ),
        Metric(
            "holdfast_commands_failed_total",
            _COUNTER,
            "Calls whose reply was an error.",
            _of_commands(lambda stats: stats.failed),
            ("command",),
        ),
        Metric(
            "holdfast_commands_rejected_total",
            _COUNTER,
            "Calls that were refused before they ran.",
            _of_commands(lambda stats: stats.rejected),
            ("command",),
        ),
        Metric(
            "holdfast_error_replies_total",
            _COUNTER,
            f"Errors by their first word. The {MOST_ERRORS} most frequent; the others are `other`.",
            _errors,
            ("error",),
        ),
        Metric(
            "holdfast_network_received_bytes_total",
            _COUNTER,
            "Bytes that clients sent.",
            _one(lambda engine: engine.meter.input_bytes),
        ),
        Metric(
            "holdfast_network_sent_bytes_total",
            _COUNTER,
            "Bytes that were sent to clients.",
            _one(lambda engine: engine.meter.output_bytes),
        ),
        Metric(
            "holdfast_keyspace_hits_total",
            _COUNTER,
            "Reads that found their key.",
            _one(lambda engine: engine.keyspace.hits),
        ),
        Metric(
            "holdfast_keyspace_misses_total",
            _COUNTER,
            "Reads that found no key.",
            _one(lambda engine: engine.keyspace.misses),
        ),
    ),
    "Clients": (
        Metric(
            "holdfast_connected_clients",
            _GAUGE,
            "Clients that are connected, without replicas.",
            _one(lambda engine: len(engine.sessions) - len(engine.primary.replicas)),
        ),
        Metric(
            "holdfast_blocked_clients",
            _GAUGE,
            "Clients that wait in a blocking command.",
            _one(lambda engine: len(engine.blocking.waiters)),
        ),
        Metric(
            "holdfast_max_clients",
            _GAUGE,
            "The limit `maxclients`.",
            _one(lambda engine: engine.config.maxclients),
        ),
        Metric(
            "holdfast_connections_received_total",
            _COUNTER,
            "Connections that were accepted.",
            _one(lambda engine: engine.meter.connections),
        ),
        Metric(
            "holdfast_connections_rejected_total",
            _COUNTER,
            "Connections that were refused because of `maxclients`.",
            _one(lambda engine: engine.meter.rejected_connections),
        ),
        Metric(
            "holdfast_clients_evicted_total",
            _COUNTER,
            "Clients that were cut off because of `maxmemory-clients`.",
            _one(lambda engine: engine.meter.evicted_clients),
        ),
        Metric(
            "holdfast_pubsub_channels",
            _GAUGE,
            "Channels that a client listens to.",
            _one(lambda engine: len(engine.pubsub.channels)),
        ),
    ),
    "Keys and memory": (
        Metric(
            "holdfast_keys",
            _GAUGE,
            "Keys of a database, in memory or only in the file.",
            _keys,
            ("db",),
        ),
        Metric(
            "holdfast_expiring_keys",
            _GAUGE,
            f"Keys that have an expiry. Above {MOST_EXPIRING} it is an estimate.",
            _expiring,
            ("db",),
        ),
        Metric(
            "holdfast_keys_expired_total",
            _COUNTER,
            "Keys that were removed because they had expired.",
            _one(lambda engine: engine.keyspace.expired),
        ),
        Metric(
            "holdfast_keys_evicted_total",
            _COUNTER,
            "Keys that were deleted because of `maxmemory` and an eviction policy.",
            _one(lambda engine: engine.keyspace.evicted),
        ),
        Metric(
            "holdfast_keys_forgotten_total",
            _COUNTER,
            "Keys that left memory because of `maxmemory`. The file has them.",
            _one(lambda engine: engine.keyspace.forgotten),
        ),
        Metric(
            "holdfast_memory_used_bytes",
            _GAUGE,
            "Memory of the keys, as `maxmemory` counts it.",
            _one(lambda engine: engine.keyspace.used_bytes),
        ),
        Metric(
            "holdfast_memory_max_bytes",
            _GAUGE,
            "The limit `maxmemory`; 0 for none.",
            _one(lambda engine: engine.config.maxmemory),
        ),
        Metric(
            "holdfast_memory_resident_bytes",
            _GAUGE,
            "Memory of the process.",
            _one(lambda _: resident_bytes()),
        ),
        Metric(
            "holdfast_memory_scripts_bytes",
            _GAUGE,
            "Memory of Lua, for scripts and functions.",
            _one(lambda engine: engine.scripts.used_bytes + engine.scripts.functions.used_bytes),
        ),
    ),
    "Durability": (
        Metric(
            "holdfast_storage_ok",
            _GAUGE,
            "0 while the disk fails and writes are refused, else 1.",
            _one(lambda engine: float(engine.condition.failure is None)),
        ),
        Metric(
            "holdfast_sync_duration_seconds",
            _HISTOGRAM,
            "How long it took until the disk had the journal. Its count is the number of syncs.",
            lambda scrape: [((), scrape.engine.turn.sync_times)],
        ),
        Metric(
            "holdfast_fold_backlog_changes",
            _GAUGE,
            "Changes that are in the journal and not in the tables yet.",
            _of_file(lambda _, store: store.folding.pending_ops),
        ),
        Metric(
            "holdfast_fold_backlog_bytes",
            _GAUGE,
            "Memory that these changes take.",
            _of_file(lambda _, store: store.folding.pending_bytes),
        ),
        Metric(
            "holdfast_fold_backlog_age_seconds",
            _GAUGE,
            "Age of the oldest of these changes; 0 if there is none.",
            _of_file(lambda engine, store: store.folding.age_s(engine.clock.monotonic_s())),
        ),
        Metric(
            "holdfast_journal_rows",
            _GAUGE,
            "Batches in the journal that the fold has not completed.",
            _of_file(lambda _, store: store.lsn - store.folded_lsn),
        ),
        Metric(
            "holdfast_checkpoints_total",
            _COUNTER,
            "How often the WAL was copied into the file.",
            _of_file(lambda engine, _: engine.turn.checkpoints),
        ),
        Metric(
            "holdfast_wal_bytes",
            _GAUGE,
            "Size of the WAL, the file `-wal`.",
            _of_file(lambda _, store: _size(wal_path(store.path))),
        ),
        Metric(
            "holdfast_file_bytes",
            _GAUGE,
            "Size of the database file.",
            _of_file(lambda _, store: _size(store.path)),
        ),
        Metric(
            "holdfast_disk_free_bytes",
            _GAUGE,
            "Free space on the disk that has the file.",
            _of_file(lambda _, store: _free_bytes(store)),
        ),
        Metric(
            "holdfast_disk_size_bytes",
            _GAUGE,
            "Size of that disk.",
            _of_file(lambda _, store: _disk_bytes(store)),
        ),
    ),
    "Replication": (
        Metric(
            "holdfast_peer_up",
            _GAUGE,
            "1 if this server follows the peer, else 0.",
            _of_peers(lambda link: float(link.is_up)),
            _PEER,
        ),
        Metric(
            "holdfast_peer_lag_seconds",
            _GAUGE,
            "For how long this server has lacked something that the peer has. +Inf if it never had"
            " all of it since its start.",
            _of_peers(_lag_s),
            _PEER,
        ),
        Metric(
            "holdfast_peer_lag_events",
            _GAUGE,
            "Events that the peer has and this server lacks.",
            _of_peers(lambda link: link.lag_ops),
            _PEER,
        ),
        Metric(
            "holdfast_peer_unsent_records",
            _GAUGE,
            "Records that were not sent to the peer yet. Missing if the peer does not follow.",
            _of_peers(lambda link: link.unsent_records),
            _PEER,
        ),
        Metric(
            "holdfast_peer_received_bytes_total",
            _COUNTER,
            "Bytes that came from the peer.",
            _of_peers(lambda link: link.received_bytes),
            _PEER,
        ),
        Metric(
            "holdfast_peer_sent_bytes_total",
            _COUNTER,
            "Bytes that were sent to the peer.",
            _of_peers(lambda link: link.sent_bytes),
            _PEER,
        ),
        Metric(
            "holdfast_peer_clock_drift_seconds",
            _GAUGE,
            "How far the clock of the peer is off, if it is off by too much; else 0.",
            _of_peers(lambda link: link.clock_drift_ms / 1000),
            _PEER,
        ),
    ),
    "Semaphores and builds": (
        Metric(
            "holdfast_semaphore_holders",
            _GAUGE,
            "Slots that are taken.",
            _of_semaphores(lambda counts: counts.holders),
            _SEMAPHORE,
        ),
        Metric(
            "holdfast_semaphore_waiters",
            _GAUGE,
            "Clients that wait for a slot.",
            _of_semaphores(lambda counts: counts.waiters),
            _SEMAPHORE,
        ),
        Metric(
            "holdfast_semaphore_limit",
            _GAUGE,
            "Number of slots.",
            _of_semaphores(lambda counts: counts.limit),
            _SEMAPHORE,
        ),
        Metric(
            "holdfast_builds",
            _GAUGE,
            "Builds of a queue, by state. Builds that ended are counted until they are deleted.",
            lambda scrape: builds(scrape.engine),
            ("db", "queue", "state"),
        ),
    ),
}
METRICS = tuple(metric for section in SECTIONS.values() for metric in section)
