"""The sections of INFO. This file reads everything and changes nothing."""

import os
import platform
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from holdfast._version import __version__
from holdfast.server.core.engine import Engine
from holdfast.server.core.saving import SaveKind
from holdfast.server.features.meter import resident_bytes
from holdfast.server.scripts.scripts import Scripts
from holdfast.server.version import IS_COMPILED
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.store import FileStore

Facts = Iterable[tuple[str, object]]

SYSTEM_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

# Counters of Redis for things that never happen here. They are 0, so that programs find them.
NO_BUFFERS = ("mem_cluster_links", "mem_aof_buffer")
NO_FORKS = (
    *("current_cow_peak", "current_cow_size", "current_cow_size_age", "current_fork_perc"),
    *("current_save_keys_processed", "current_save_keys_total"),
    *("rdb_last_cow_size", "aof_last_cow_size"),
    *("module_fork_in_progress", "module_fork_last_cow_size"),
)
NO_CACHES = ("migrate_cached_sockets", "slave_expires_tracked_keys")
NO_DEFRAGMENTATION = (
    *("active_defrag_hits", "active_defrag_misses"),
    *("active_defrag_key_hits", "active_defrag_key_misses"),
    *("total_active_defrag_time", "current_active_defrag_time"),
)

# The most keys with an expiry that are counted one by one. If there are more, it is an estimate.
MAX_COUNTED = 50_000


def _server(engine: Engine) -> Facts:
    config, meter = engine.config, engine.meter
    yield "redis_version", config.redis_version
    yield "redis_git_sha1", "00000000"
    yield "redis_git_dirty", 0
    yield "redis_build_id", 0
    yield "redis_mode", "standalone"
    yield "holdfast_version", __version__
    yield "holdfast_compiled", int(IS_COMPILED)
    yield "python_version", platform.python_version()
    yield "os", f"{platform.system()} {platform.release()} {platform.machine()}"
    yield "arch_bits", 64 if sys.maxsize > 1 << 32 else 32
    yield "monotonic_clock", "POSIX clock_gettime"
    yield "multiplexing_api", "epoll" if platform.system() == "Linux" else "kqueue"
    yield "process_id", os.getpid()
    yield "process_supervised", "no"
    yield "run_id", meter.run_id
    yield "tcp_port", meter.tcp_port
    yield "server_time_usec", engine.clock.now_us()
    yield "uptime_in_seconds", meter.uptime_s
    yield "uptime_in_days", meter.uptime_s // 86400
    yield "hz", config.hz
    yield "configured_hz", config.hz
    yield "lru_clock", engine.keyspace.now_s & 0xFFFFFF
    yield "executable", sys.executable
    yield "config_file", config.file or ""
    yield "io_threads_active", 0
    if engine.shutdown is not None and engine.shutdown.left_ms is not None:
        yield "shutdown_in_milliseconds", engine.shutdown.left_ms


def _clients(engine: Engine) -> Facts:
    yield "connected_clients", len(engine.sessions) - len(engine.primary.replicas)
    yield "cluster_connections", 0
    yield "maxclients", engine.config.maxclients
    yield "client_recent_max_input_buffer", 0
    yield "client_recent_max_output_buffer", 0
    yield "blocked_clients", len(engine.blocking.waiters) + engine.pause.held_count
    yield "tracking_clients", len(engine.tracking)
    yield "clients_in_timeout_table", sum(w.timer is not None for w in engine.blocking.waiters)


def _memory(engine: Engine) -> Facts:
    config = engine.config
    data, resident = engine.keyspace.used_bytes, resident_bytes()
    clients = sum(each.memory_bytes for each in engine.sessions.values())
    overhead = clients  # the overhead of a key counts as data; as in Redis, Lua is not included
    used = data + overhead
    peak = max(engine.meter.peak_bytes, used)
    for name, nbytes in (
        ("used_memory", used),
        ("used_memory_rss", resident),
        ("used_memory_peak", peak),
        ("maxmemory", config.maxmemory),
    ):
        yield name, nbytes
        yield f"{name}_human", human(nbytes)
    yield "used_memory_peak_perc", f"{100 * used / peak if peak else 100:.2f}%"
    yield "used_memory_overhead", overhead
    yield "used_memory_startup", 0
    yield "used_memory_dataset", data
    yield "used_memory_dataset_perc", f"{100 * data / used if used else 100:.2f}%"
    yield "total_system_memory", SYSTEM_BYTES
    yield "total_system_memory_human", human(SYSTEM_BYTES)
    yield from _lua(engine.scripts)
    yield "maxmemory_policy", config.maxmemory_policy
    yield "mem_fragmentation_ratio", f"{resident / used if used else 0:.2f}"
    yield "mem_fragmentation_bytes", max(0, resident - used)
    yield "mem_not_counted_for_evict", overhead
    primary = engine.primary
    replicas = sum(each.memory_bytes for each in primary.replicas)
    yield "mem_replication_backlog", 0 if primary.backlog is None else primary.backlog.kept_bytes
    yield "mem_total_replication_buffers", primary.buffered_bytes
    yield "mem_clients_slaves", replicas
    yield from dict.fromkeys(NO_BUFFERS, 0).items()
    yield "mem_clients_normal", clients - replicas
    yield "mem_allocator", "python"
    yield "active_defrag_running", 0
    yield "lazyfree_pending_objects", engine.keyspace.freeing.pending
    yield "lazyfreed_objects", engine.keyspace.freeing.freed


def _lua(scripts: Scripts) -> Facts:
    functions = scripts.functions
    codes = functions.text_bytes
    total = scripts.used_bytes + functions.used_bytes
    yield "used_memory_lua", scripts.used_bytes
    yield "used_memory_vm_eval", scripts.used_bytes
    yield "used_memory_lua_human", human(scripts.used_bytes)
    yield "used_memory_scripts_eval", scripts.cache.text_bytes
    yield "number_of_cached_scripts", scripts.cache.count
    yield "number_of_functions", functions.count
    yield "number_of_libraries", len(functions.libraries)
    yield "used_memory_vm_functions", functions.used_bytes
    yield "used_memory_vm_total", total
    yield "used_memory_vm_total_human", human(total)
    yield "used_memory_functions", codes
    yield "used_memory_scripts", scripts.cache.text_bytes + codes
    yield "used_memory_scripts_human", human(scripts.cache.text_bytes + codes)


def _persistence(engine: Engine) -> Facts:
    saving, store = engine.saving, engine.store
    status = "ok" if saving.last_worked else "err"
    saves, rewrites = saving.running is SaveKind.SAVE, saving.running is SaveKind.REWRITE
    yield "loading", 0
    yield "async_loading", 0
    yield from dict.fromkeys(NO_FORKS, 0).items()
    yield "rdb_changes_since_last_save", engine.keyspace.dirty
    yield "rdb_bgsave_in_progress", int(saves or engine.primary.is_writing)
    yield "rdb_last_save_time", saving.last_s
    yield "rdb_last_bgsave_status", status
    yield "rdb_last_bgsave_time_sec", saving.last_took_s
    yield "rdb_current_bgsave_time_sec", saving.running_for_s if saves else -1
    yield "rdb_saves", saving.count
    yield "rdb_last_load_keys_expired", 0
    yield "rdb_last_load_keys_loaded", 0  # a start loads no keys; see holdfast_recovered_ops
    yield "aof_enabled", int(store.is_durable)
    yield "aof_rewrite_in_progress", int(rewrites)
    yield "aof_rewrite_scheduled", 0
    yield "aof_last_rewrite_time_sec", saving.last_took_s
    yield "aof_current_rewrite_time_sec", saving.running_for_s if rewrites else -1
    yield "aof_last_bgrewrite_status", status
    yield "aof_rewrites", saving.count
    yield "aof_rewrites_consecutive_failures", int(not saving.last_worked)
    yield "aof_last_write_status", "ok" if engine.condition.failure is None else "err"
    yield "holdfast_appendfsync", engine.config.appendfsync
    yield "holdfast_last_error", engine.last_storage_error
    if not isinstance(store, FileStore):
        return
    yield "holdfast_file", store.path
    yield "holdfast_file_bytes", _size(store.path)
    yield "holdfast_wal_bytes", _size(Path(f"{store.path}-wal"))
    yield "holdfast_wal_pages", store.wal_pages
    yield "holdfast_journal_lsn", store.lsn
    yield "holdfast_journal_rows", store.lsn - store.folded_lsn
    yield "holdfast_unfolded_ops", store.folding.pending_ops
    yield "holdfast_unfolded_bytes", store.folding.pending_bytes
    yield "holdfast_unfolded_age_ms", int(store.folding.age_s(engine.clock.monotonic_s()) * 1000)
    yield "holdfast_recovered_ops", store.recovered_ops
    yield "holdfast_syncs", engine.turn.syncs
    yield "holdfast_checkpoints", engine.turn.checkpoints


def _stats(engine: Engine) -> Facts:
    meter, keyspace = engine.meter, engine.keyspace
    yield "total_connections_received", meter.connections
    yield "total_commands_processed", engine.commands.calls
    yield "instantaneous_ops_per_sec", round(meter.ops.per_s)
    yield "total_net_input_bytes", meter.input_bytes
    yield "total_net_output_bytes", meter.output_bytes
    yield "total_net_repl_input_bytes", meter.repl_input_bytes
    yield "total_net_repl_output_bytes", engine.primary.sent_bytes
    yield "instantaneous_input_kbps", f"{meter.input.per_s / 1024:.2f}"
    yield "instantaneous_output_kbps", f"{meter.output.per_s / 1024:.2f}"
    yield "instantaneous_input_repl_kbps", f"{meter.repl_input.per_s / 1024:.2f}"
    yield "instantaneous_output_repl_kbps", f"{meter.repl_output.per_s / 1024:.2f}"
    yield "rejected_connections", meter.rejected_connections
    yield from dict.fromkeys(NO_CACHES, 0).items()
    yield "sync_full", engine.primary.full_syncs
    yield "sync_partial_ok", engine.primary.partial_syncs
    yield "sync_partial_err", engine.primary.refused_syncs
    yield "expired_keys", keyspace.expired
    yield "expired_stale_perc", "0.00"
    yield "expired_time_cap_reached_count", meter.expiry_slices_put_off
    yield "expire_cycle_cpu_milliseconds", meter.expiry_ns // 1_000_000
    yield "evicted_keys", keyspace.evicted
    yield "evicted_clients", meter.evicted_clients
    yield "holdfast_forgotten_keys", keyspace.forgotten
    yield "keyspace_hits", keyspace.hits
    yield "keyspace_misses", keyspace.misses
    yield "pubsub_channels", len(engine.pubsub.channels)
    yield "pubsub_patterns", len(engine.pubsub.patterns)
    yield "pubsubshard_channels", len(engine.pubsub.shards)
    yield "latest_fork_usec", 0
    yield "total_forks", 0
    yield from dict.fromkeys(NO_DEFRAGMENTATION, 0).items()
    yield "tracking_total_keys", engine.tracking.total_keys
    yield "tracking_total_items", engine.tracking.total_items
    yield "tracking_total_prefixes", engine.tracking.total_prefixes
    yield "unexpected_error_replies", 0
    yield "total_error_replies", engine.invoker.error_stats.total()
    yield "dump_payload_sanitizations", 0
    yield "io_threaded_reads_processed", 0
    yield "io_threaded_writes_processed", 0


def _replication(engine: Engine) -> Facts:
    primary, now_s = engine.primary, engine.clock.monotonic_s()
    backlog = primary.backlog
    following = engine.following
    if following is not None and following.is_on:
        yield "role", "slave"
        yield from following.facts()
    else:
        yield "role", "master"
    yield "connected_slaves", len(primary.replicas)
    if engine.config.min_replicas_to_write and engine.config.min_replicas_max_lag:
        yield "min_slaves_good_slaves", primary.good_replicas
    for number, each in enumerate(primary.replicas.values()):
        lag_s = int(now_s - each.acknowledged_s)
        where = f"ip={each.address},port={each.port},state={each.state.value}"
        yield f"slave{number}", f"{where},offset={each.acknowledged},lag={lag_s}"
    state = "no-failover" if following is None else following.failover_state
    yield "master_failover_state", state
    second_id, second_offset = b"", -1
    if backlog is not None and backlog.second_id:
        second_id, second_offset = backlog.second_id, backlog.second_offset + 1
    yield "master_replid", primary.replication_id.decode()
    yield "master_replid2", second_id.decode() or "0" * 40
    yield "master_repl_offset", primary.offset
    yield "second_repl_offset", second_offset
    yield "repl_backlog_active", int(backlog is not None)
    yield "repl_backlog_size", engine.config.repl_backlog_size
    yield "repl_backlog_first_byte_offset", 0 if backlog is None else backlog.first_offset
    yield "repl_backlog_histlen", 0 if backlog is None else backlog.kept_bytes
    if engine.peers is not None:
        yield from engine.peers.facts()


def _cpu(_: Engine) -> Facts:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield "used_cpu_sys", f"{own.ru_stime:.6f}"
    yield "used_cpu_user", f"{own.ru_utime:.6f}"
    yield "used_cpu_sys_children", f"{children.ru_stime:.6f}"
    yield "used_cpu_user_children", f"{children.ru_utime:.6f}"
    yield "used_cpu_sys_main_thread", f"{own.ru_stime:.6f}"  # the others wait for the disk
    yield "used_cpu_user_main_thread", f"{own.ru_utime:.6f}"


def _nothing(_: Engine) -> Facts:
    return ()


def _commandstats(engine: Engine) -> Facts:
    for name, stats in engine.commands.stats.items():
        if stats.calls or stats.rejected or stats.failed:
            us = stats.total_ns // 1000
            counts = f"calls={stats.calls},usec={us},usec_per_call={us / (stats.calls or 1):.2f}"
            refused = f"rejected_calls={stats.rejected},failed_calls={stats.failed}"
            yield f"cmdstat_{name}", f"{counts},{refused}"


def _latencystats(engine: Engine) -> Facts:
    if not engine.config.latency_tracking:
        return
    percents = engine.config.latency_tracking_info_percentiles
    for name, stats in engine.commands.stats.items():
        if stats.calls:
            values = zip(percents, stats.percentiles_us(percents), strict=True)
            shown = ",".join([f"p{percent:g}={us:.3f}" for percent, us in values])
            yield f"latency_percentiles_usec_{name}", shown


def _errorstats(engine: Engine) -> Facts:
    for code, count in sorted(engine.invoker.error_stats.items()):
        yield f"errorstat_{code.decode('latin-1')}", f"count={count}"


def _cluster(_: Engine) -> Facts:
    yield "cluster_enabled", 0


def _keyspace(engine: Engine) -> Facts:
    expiring = expiring_keys(engine.keyspace)
    for database in engine.keyspace.databases:
        if len(database):
            expires = min(expiring[database.space.id], len(database))
            yield (
                f"db{database.index}",
                f"keys={len(database)},expires={expires},avg_ttl=0",
            )


def expiring_keys(keyspace: Keyspace, most: int = MAX_COUNTED) -> Counter[int]:
    """The number of keys that have an expiry, by space; keys in memory and keys that are only in
    the file. If there are more than `most`, it is an estimate."""
    expiring = keyspace.expiring
    ids = {key.id: key.space.id for key in expiring.keys(most)}
    tables = keyspace.tables
    if tables is not None and any(database.space.cold for database in keyspace.databases):
        ids |= {
            key_id: space_id
            for key_id, space_id in tables.expiring(most)
            if not keyspace.fold_state.is_ahead_of_file(key_id)
        }
    counts = Counter(ids.values())
    if len(expiring) > most:
        scale = len(expiring) / most
        return Counter({space_id: int(count * scale) for space_id, count in counts.items()})
    return counts


Section = Callable[[Engine], Facts]
SECTIONS: dict[str, Section] = {
    "Server": _server,
    "Clients": _clients,
    "Memory": _memory,
    "Persistence": _persistence,
    "Stats": _stats,
    "Replication": _replication,
    "CPU": _cpu,
    "Modules": _nothing,
    "Commandstats": _commandstats,
    "Errorstats": _errorstats,
    "Latencystats": _latencystats,
    "Cluster": _cluster,
    "Keyspace": _keyspace,
}
ONLY_WHEN_ASKED = {"commandstats", "latencystats"}


def info(engine: Engine, asked: Iterable[str]) -> str:
    """The sections with these names, in our order. `default`, `all` and `everything` are names,
    too."""
    wanted = {name.lower() for name in asked} or {"default"}
    every = bool(wanted & {"all", "everything"})
    return "\r\n".join(
        _shown(title, section(engine))
        for title, section in SECTIONS.items()
        if every
        or title.lower() in wanted
        or ("default" in wanted and title.lower() not in ONLY_WHEN_ASKED)
    )


def _shown(title: str, facts: Facts) -> str:
    lines: Iterator[str] = (f"{name}:{value}\r\n" for name, value in facts)
    return f"# {title}\r\n" + "".join(lines)


def human(nbytes: int) -> str:
    """A size as Redis shows it to people: 512B, 1.50K, 2.00G."""
    if nbytes < 1024:
        return f"{nbytes}B"
    size = float(nbytes)
    for unit in "KMGTP":
        size /= 1024
        if size < 1024 or unit == "P":
            break
    return f"{size:.2f}{unit}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
