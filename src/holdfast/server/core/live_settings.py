"""The effects of CONFIG SET on a running server: the one place that subscribes to parameters.

Most parameters need nothing here, because the code that uses them reads them each time.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import ConfigError
from holdfast.log_lines import LEVELS
from holdfast.server.config.remarks import lowered_promise
from holdfast.server.config.tls import renew
from holdfast.server.core.descriptors import check_clients
from holdfast.store.memory.eviction import Deletion
from holdfast.store.memory.lfu import Frequencies

if TYPE_CHECKING:
    from holdfast.server.core.engine import Engine

log = logging.getLogger(__name__)

TLS = (
    *("tls-cert-file", "tls-key-file", "tls-key-file-pass"),
    *("tls-dh-params-file", "tls-auth-clients", "tls-protocols", "tls-ciphers"),
    *("tls-ciphersuites", "tls-prefer-server-ciphers"),
)
TLS_AUTHORITIES = ("tls-ca-cert-file", "tls-ca-cert-dir")


def follow(engine: "Engine") -> None:
    """Apply the configuration to the engine, now and after each CONFIG SET."""
    config = engine.config

    def appendfsync() -> None:
        engine.turn.set_appendfsync(config.appendfsync)
        if (remark := lowered_promise(config)) is not None and engine.store.is_durable:
            log.log(remark.level, "%s", remark.sentence)

    def slowlog() -> None:
        threshold_us = config.slowlog_log_slower_than
        engine.invoker.slow_ns = threshold_us * 1000 if threshold_us >= 0 else 1 << 63
        engine.set_slowness()
        engine.slowlog.max_len = config.slowlog_max_len
        engine.slowlog.trim()

    def command_sizes() -> None:
        sizes = engine.command_sizes
        sizes.most_request_bytes = config.commandlog_request_larger_than
        sizes.most_reply_bytes = config.commandlog_reply_larger_than
        engine.large_requests.max_len = config.commandlog_large_request_max_len
        engine.large_replies.max_len = config.commandlog_large_reply_max_len
        engine.large_requests.trim()
        engine.large_replies.trim()
        (engine.observe if sizes.has_limits else engine.observe_no_more)(sizes.saw)

    def maxmemory() -> None:
        """Above the limit, `noeviction` forgets values that the file has. Other policies delete
        keys. Without a file, no value can be forgotten."""
        limit, name = config.maxmemory, config.maxmemory_policy
        forgets = name == "noeviction" and engine.store.is_durable
        engine.store.max_bytes = limit if forgets else 0
        condition = engine.condition
        condition.deletion, condition.is_out_of_memory = None, False
        if limit and not forgets:
            samples = config.maxmemory_samples
            condition.deletion = Deletion(engine.keyspace, name, limit, samples, engine.rng)
        # A policy that deletes compares keys, so no key may be packed.
        engine.keyspace.may_pack = name == "noeviction"
        engine.check_room()
        condition.update()

    def frequencies() -> None:
        counts = None
        if config.maxmemory_policy.endswith("lfu"):
            counts = engine.keyspace.frequencies or Frequencies(engine.keyspace, engine.rng)
            counts.log_factor = config.lfu_log_factor
            counts.decay_min = config.lfu_decay_time
        engine.keyspace.count_uses(counts)

    def policy() -> None:
        frequencies()
        maxmemory()

    def loglevel() -> None:
        logging.getLogger("holdfast").setLevel(LEVELS[config.loglevel])

    def spikes() -> None:
        engine.spikes.threshold_ms = config.latency_monitor_threshold

    def stream_nodes() -> None:
        engine.keyspace.stream_node_entries = config.stream_node_max_entries
        engine.keyspace.stream_node_bytes = config.stream_node_max_bytes

    def idempotence() -> None:
        engine.keyspace.stream_idmp_duration_s = config.stream_idmp_duration
        engine.keyspace.stream_idmp_maxsize = config.stream_idmp_maxsize

    def client_limits() -> None:
        for session in list(engine.sessions.values()):
            session.limits_changed()

    def maxclients() -> None:
        check_clients(config.maxclients)

    def tls() -> None:
        if engine.tls is None:
            needs_a_restart()
        else:
            renew(engine.tls, config)

    def notify_keyspace_events() -> None:
        engine.notifications.publish(config.notify_keyspace_events)

    def backlog() -> None:
        if engine.primary.backlog is not None:
            engine.primary.backlog.resize(config.repl_backlog_size)

    def replica() -> None:
        if engine.following is not None:
            engine.following.settings_changed()

    def port() -> None:
        engine.change_port()

    effects: dict[str, Callable[[], None]] = {
        "appendfsync": appendfsync,
        "slowlog-log-slower-than": slowlog,
        "slowlog-max-len": slowlog,
        "commandlog-request-larger-than": command_sizes,
        "commandlog-large-request-max-len": command_sizes,
        "commandlog-reply-larger-than": command_sizes,
        "commandlog-large-reply-max-len": command_sizes,
        "maxmemory": maxmemory,
        "maxmemory-policy": policy,
        "maxmemory-samples": maxmemory,
        "lfu-decay-time": frequencies,
        "lfu-log-factor": frequencies,
        "latency-monitor-threshold": spikes,
        "loglevel": loglevel,
        "requirepass": engine.users.use_requirepass,
        "maxclients": maxclients,
        "proto-max-bulk-len": client_limits,
        "client-query-buffer-limit": client_limits,
        "client-output-buffer-limit": client_limits,
        "stream-node-max-entries": stream_nodes,
        "stream-node-max-bytes": stream_nodes,
        "stream-idmp-duration": idempotence,
        "stream-idmp-maxsize": idempotence,
        "notify-keyspace-events": notify_keyspace_events,
        "tracking-table-max-keys": engine.tracking.limit,
        "min-replicas-to-write": engine.primary.count_good,
        "min-replicas-max-lag": engine.primary.count_good,
        "repl-backlog-size": backlog,
        "replica-read-only": replica,
        "replica-serve-stale-data": replica,
        "port": port,
        "bind": needs_a_restart,
        "tls-port": needs_a_restart,
    }
    if config.tls_port:
        effects |= dict.fromkeys(TLS, tls) | dict.fromkeys(TLS_AUTHORITIES, needs_a_restart)
    for name, effect in effects.items():
        config.subscribe(name, effect)
    slowlog()
    command_sizes()
    spikes()
    policy()
    stream_nodes()
    idempotence()
    notify_keyspace_events()
    engine.primary.count_good()


def needs_a_restart() -> None:
    raise ConfigError("a running server cannot change this; restart it with the new value")
