"""Every configuration parameter, once: its name, kind and default, and how it may be used.

Names, ranges and defaults are those of Redis 7. Where one differs, a comment has the reason. Values
live in `config.py`, kinds in `value_kinds.py`.
"""

import enum
import re
from collections.abc import Iterator
from typing import Any

from holdfast.server.config.value_kinds import (
    INT_MAX,
    LONG_MAX,
    ULONG_MAX,
    Bool,
    Directory,
    Enum,
    Flags,
    Int,
    KeptLines,
    KeyspaceEvents,
    Memory,
    MemoryOrPercent,
    Octal,
    OomScores,
    OutputLimits,
    Percentiles,
    ReplicaOf,
    Save,
    Secret,
    Text,
    ValueKind,
    Words,
)
from holdfast.server.version import REDIS_VERSION

# A database has a row in the file from the start: see redis_databases in store/file/schema.sql.
MOST_DATABASES = 1024


class Use(enum.Flag):
    LIVE = 0
    FIXED = enum.auto()  # CONFIG SET cannot change it
    INERT = enum.auto()  # accepted and kept, so that files and clients work; it has no effect here
    HIDDEN = enum.auto()  # CONFIG GET shows it only by its full name
    PROTECTED = enum.auto()  # CONFIG SET needs enable-protected-configs
    FILE = enum.auto()  # a directive of files and command lines, unknown to CONFIG
    SECRET = enum.auto()  # logs do not show it
    # a parameter of ours that is FIXED: CONFIG SET accepts its present value, because clients may
    # set every parameter that CONFIG GET shows
    OWN = enum.auto()
    # setting the same value again has an effect, because the file may have changed
    NAMES_FILE = enum.auto()


class Param:
    def __init__(
        self,
        name: str,
        kind: ValueKind,
        default: str,
        use: Use = Use.LIVE,
        alias: str | None = None,
        content_of: str = "",
    ) -> None:
        self.name = name
        self.attribute = name.replace("-", "_")
        self.kind = kind
        self.default = default
        self.use = use
        self.alias = alias
        self.content_of = content_of  # the parameter whose value is in the file that this one names

    def initial(self) -> Any:
        """The default as a value. It is parsed each time, because `.` is the working directory of
        that moment."""
        if self.kind.adds and not self.default:
            return ()
        return self.kind.parse(self.split(self.default.encode()), None)

    def split(self, text: bytes) -> list[bytes]:
        """The arguments that CONFIG SET gives as one text."""
        return text.split(b" ") if self.kind.many else [text]

    @property
    def names(self) -> Iterator[str]:
        yield self.name
        if self.alias:
            yield self.alias


def _plain_name(param: str, what: str, *, may_be_empty: bool = False) -> Text:
    def check(value: str) -> str | None:
        if not value and not may_be_empty:
            return f"{param} can't be empty"
        return f"{param} can't be a path, just a {what}" if "/" in value else None

    return Text(check)


def _host_name(value: str) -> str | None:
    if len(value) >= 256:
        return "Hostnames must be less than 256 characters"
    if re.search(r"[^A-Za-z0-9.-]", value):
        return "Hostnames may only contain alphanumeric characters, hyphens or dots"
    return None


def _title(value: str) -> str | None:
    known = r"\{\{|\{(title|listen-addr|server-mode|port|tls-port|unixsocket|config-file)\}"
    if not value.strip() or "{" in re.sub(known, "", value):
        return "template format is invalid or contains unknown variables"
    return None


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def _version(value: str) -> str | None:
    if not re.fullmatch(r"(0|[1-9][0-9]?)(\.(0|[1-9][0-9]?)){2}", value):
        return "argument must be a version such as 7.2.4"
    if _numbers(value) > _numbers(REDIS_VERSION):
        return f"argument can't be above {REDIS_VERSION}: later commands are missing here"
    return None


FIXED, INERT, HIDDEN, FILE = Use.FIXED, Use.INERT, Use.HIDDEN, Use.FILE
OWN_FIXED = Use.OWN | FIXED
SECRET = Use.SECRET

_BOOL, _TEXT, _COUNT = Bool(), Text(), Int()
_ANY_INT = Int(-INT_MAX - 1)
_LONG = Int(0, LONG_MAX)
_PORT = Int(0, 65535)
_SIZE = Memory(0, LONG_MAX)
_ALLOWED = Enum("no yes local")
_LOCAL = "127.0.0.1 -::1"
_SHUTDOWN = Flags("default save nosave now force")

_PARAMS: tuple[Param, ...] = (
    # The file. `db` is ours: a path (relative to `dir`) or :memory:.
    Param("db", _TEXT, "holdfast.db", OWN_FIXED),
    Param("dir", Directory(), ".", Use.PROTECTED),
    Param("databases", Int(1, MOST_DATABASES), "16", FIXED),
    Param("accept-data-loss", _BOOL, "no", FIXED | HIDDEN),  # for one start: store/file/mark.py
    Param("no-backup", _BOOL, "no", FIXED | HIDDEN),  # keep no copy of a file that is migrated
    # Active-active: the node id of this server, and the addresses of the others.
    Param("active-active", _BOOL, "no", FIXED | HIDDEN),
    Param("active-active-cluster", _TEXT, "holdfast", FIXED | HIDDEN),
    # How much of the log is kept for peers that are away. A peer that needs more takes a snapshot.
    Param("active-active-log-limit", Memory(1 << 16, LONG_MAX), "64mb"),
    Param("node-id", Int(0, 255), "0", FIXED | HIDDEN),
    Param("peer", KeptLines(1, 1), "", FILE | SECRET),
    # Redis has the defaults no, everysec and three save points. Here every write is in the journal,
    # and a reply leaves when the write is on disk: Holdfast never acknowledges a write that it
    # could lose. There are no snapshots, so there is nothing for `save` to schedule.
    Param("appendonly", _BOOL, "yes", INERT),
    Param("appendfsync", Enum("everysec always no"), "always"),
    Param("save", Save(), "", INERT),
    Param("stop-writes-on-bgsave-error", _BOOL, "yes", INERT),
    # Ours: how old a change becomes before it is written into the tables that other programs read.
    Param("fold-age-ms", _COUNT, "1000"),
    # Listening. By default the program redis-server listens on every interface, and protected mode
    # refuses clients from other machines. The redis.conf that comes with it has these addresses,
    # and they are our default.
    Param("bind", Words(16, "Too many bind addresses specified."), _LOCAL),
    Param("bind-source-addr", _TEXT, "", INERT),
    Param("port", _PORT, "6379"),
    Param("tcp-backlog", _COUNT, "511", FIXED),
    Param("tcp-keepalive", _COUNT, "300"),
    Param("unixsocket", _TEXT, "", FIXED),
    Param("unixsocketperm", Octal(0, 0o777), "0", FIXED),
    Param("socket-mark-id", Int(0, 2**32 - 1), "0", FIXED | INERT),
    # Ours: /metrics, /health and /ready; 0 for none.
    Param("http-port", _PORT, "0", OWN_FIXED),
    Param("http-bind", Words(16, "Too many bind addresses specified."), _LOCAL, OWN_FIXED),
    # Ours: the dashboard, pages for a browser from a process beside the server.
    Param("dashboard", _BOOL, "no", OWN_FIXED),
    Param("dashboard-port", _PORT, "8380", OWN_FIXED),
    Param(
        "dashboard-bind",
        Words(16, "Too many bind addresses specified."),
        "127.0.0.1",
        OWN_FIXED,
    ),
    Param("protected-mode", _BOOL, "yes"),
    Param("maxclients", Int(1, 2**32 - 1), "10000"),
    Param("timeout", _COUNT, "0"),
    Param("auth-timeout", _COUNT, "60"),  # ours: seconds to sign in, if a password is needed
    Param("shutdown-timeout", _COUNT, "10"),
    Param("shutdown-on-sigint", _SHUTDOWN, "default", INERT),
    Param("shutdown-on-sigterm", _SHUTDOWN, "default", INERT),
    # Limits for the memory of a client. Redis does not bound the output of a normal client.
    Param("proto-max-bulk-len", Memory(1 << 20, LONG_MAX), "512mb"),
    Param("client-query-buffer-limit", Memory(1 << 20, LONG_MAX), "1gb"),
    Param(
        "client-output-buffer-limit",
        OutputLimits(),
        "normal 256mb 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60",
    ),
    # Blocking pops; all ours.
    Param("blocking-max-waiters-per-key", Int(1), "10000"),
    Param("blocking-max-total-waiters", Int(1), "50000"),
    Param("blocking-max-keys-per-wait", Int(1), "128"),
    Param("blocking-wakeup-batch-size", Int(1), "1"),
    # Memory and expiry.
    Param("huge-pages", _BOOL, "yes", OWN_FIXED),  # ours; see huge_pages.py
    Param("maxmemory", Memory(0, ULONG_MAX), "0"),
    Param(
        "maxmemory-policy",
        Enum(
            "volatile-lru volatile-lfu volatile-random volatile-ttl "
            "allkeys-lru allkeys-lfu allkeys-random noeviction"
        ),
        "noeviction",
    ),
    Param("maxmemory-samples", Int(1), "5"),
    Param("maxmemory-eviction-tenacity", Int(0, 100), "10", INERT),
    Param("maxmemory-clients", MemoryOrPercent(), "0"),
    Param("lfu-decay-time", _COUNT, "1"),
    Param("lfu-log-factor", _COUNT, "10"),
    Param("active-expire-effort", Int(1, 10), "1", INERT),
    Param("hz", Int(clamp=(1, 500)), "10"),
    Param("dynamic-hz", _BOOL, "yes", INERT),
    Param("activerehashing", _BOOL, "yes", INERT),
    Param("lazyfree-lazy-eviction", _BOOL, "no", INERT),
    Param("lazyfree-lazy-expire", _BOOL, "no", INERT),
    Param("lazyfree-lazy-server-del", _BOOL, "no", INERT),
    Param("lazyfree-lazy-user-del", _BOOL, "no", INERT),
    Param("lazyfree-lazy-user-flush", _BOOL, "no", INERT),
    # Encodings, as OBJECT ENCODING shows them.
    Param("hash-max-listpack-entries", _LONG, "512", alias="hash-max-ziplist-entries"),
    Param("hash-max-listpack-value", _SIZE, "64", alias="hash-max-ziplist-value"),
    Param("list-max-listpack-size", _ANY_INT, "-2", INERT, "list-max-ziplist-size"),
    Param("list-compress-depth", _COUNT, "0", INERT),
    Param("set-max-intset-entries", _LONG, "512"),
    Param("set-max-listpack-entries", _LONG, "128", INERT),
    Param("set-max-listpack-value", _LONG, "64", INERT),
    Param("zset-max-listpack-entries", _LONG, "128", alias="zset-max-ziplist-entries"),
    Param("zset-max-listpack-value", _SIZE, "64", alias="zset-max-ziplist-value"),
    Param("stream-node-max-bytes", _SIZE, "4096"),
    Param("stream-node-max-entries", _LONG, "100"),
    Param("stream-idmp-duration", Int(1, 86400), "100"),
    Param("stream-idmp-maxsize", Int(1, 10000), "100"),
    Param("hll-sparse-max-bytes", _SIZE, "3000"),
    # Users and permissions.
    Param("requirepass", Secret(), "", SECRET),
    Param("aclfile", _TEXT, "", FIXED),
    Param("acllog-max-len", _LONG, "128"),
    Param("acl-pubsub-default", Enum("allchannels resetchannels"), "resetchannels"),
    Param("enable-protected-configs", _ALLOWED, "no", FIXED),
    Param("enable-debug-command", _ALLOWED, "no", FIXED),
    Param("enable-module-command", _ALLOWED, "no", FIXED | INERT),
    Param("rename-command", KeptLines(2, 2), "", FILE),
    Param("user", KeptLines(1, INT_MAX), "", FILE),
    # Scripts, notifications, tracking.
    Param("busy-reply-threshold", _LONG, "5000", alias="lua-time-limit"),
    Param("lua-hard-time-limit", _LONG, "0"),
    Param("lua-max-memory", _SIZE, "512mb", OWN_FIXED),
    Param("notify-keyspace-events", KeyspaceEvents(), ""),
    Param("tracking-table-max-keys", _LONG, "1000000"),
    # Watching the server.
    Param("redis-version", Text(_version), REDIS_VERSION),  # ours: the version that clients get
    Param("loglevel", Enum("debug verbose notice warning"), "notice"),
    Param("logfile", _TEXT, "", FIXED),
    Param("log-format", Enum("text json"), "text", FIXED | HIDDEN),  # ours
    Param("pidfile", _TEXT, "", FIXED),
    Param(
        "slowlog-log-slower-than",
        Int(-1, LONG_MAX),
        "10000",
        alias="commandlog-execution-slower-than",
    ),
    Param("slowlog-max-len", _LONG, "128", alias="commandlog-slow-execution-max-len"),
    # Valkey's. There the limits are 1 MB. Here they are off, because they cost each command time.
    Param("commandlog-request-larger-than", Int(-1, LONG_MAX), "-1"),
    Param("commandlog-large-request-max-len", _LONG, "128"),
    Param("commandlog-reply-larger-than", Int(-1, LONG_MAX), "-1"),
    Param("commandlog-large-reply-max-len", _LONG, "128"),
    Param("latency-monitor-threshold", _LONG, "0"),
    Param("latency-tracking", _BOOL, "yes"),
    Param("latency-tracking-info-percentiles", Percentiles(), "50 99 99.9"),
    # TLS.
    Param("tls-port", _PORT, "0"),
    Param("tls-cert-file", _TEXT, "", Use.NAMES_FILE),
    Param("tls-key-file", _TEXT, "", Use.NAMES_FILE),
    Param("tls-key-file-pass", _TEXT, "", SECRET),
    Param("tls-ca-cert-file", _TEXT, "", Use.NAMES_FILE),
    Param("tls-ca-cert-dir", _TEXT, "", Use.NAMES_FILE),
    Param("tls-dh-params-file", _TEXT, "", Use.NAMES_FILE),
    Param("tls-auth-clients", Enum("no yes optional"), "yes"),
    Param("tls-protocols", _TEXT, ""),
    Param("tls-ciphers", _TEXT, ""),
    Param("tls-ciphersuites", _TEXT, ""),
    Param("tls-prefer-server-ciphers", _BOOL, "no"),
    Param("tls-session-caching", _BOOL, "yes", INERT),
    Param("tls-session-cache-size", _COUNT, "20480", INERT),
    Param("tls-session-cache-timeout", _COUNT, "300", INERT),
    Param("tls-client-cert-file", _TEXT, "", INERT),
    Param("tls-client-key-file", _TEXT, "", INERT),
    Param("tls-client-key-file-pass", _TEXT, "", INERT | SECRET),
    Param("tls-cluster", _BOOL, "no", INERT),
    Param("tls-replication", _BOOL, "no"),
    # The process.
    Param("daemonize", _BOOL, "no", FIXED | INERT),
    Param("supervised", Enum("upstart systemd auto no"), "no", FIXED),
    Param("always-show-logo", _BOOL, "no", FIXED | INERT),
    Param("set-proc-title", _BOOL, "yes", FIXED | INERT),
    Param("proc-title-template", Text(_title), "{title} {listen-addr} {server-mode}", INERT),
    Param("locale-collate", _TEXT, "", INERT),
    Param("ignore-warnings", _TEXT, "", INERT),
    Param("io-threads", Int(1, 128), "1", FIXED | INERT),
    Param("io-threads-do-reads", _BOOL, "no", FIXED | INERT),
    Param("server_cpulist", _TEXT, "", FIXED | INERT),
    Param("bio_cpulist", _TEXT, "", FIXED | INERT),
    Param("aof_rewrite_cpulist", _TEXT, "", FIXED | INERT),
    Param("bgsave_cpulist", _TEXT, "", FIXED | INERT),
    Param("syslog-enabled", _BOOL, "no", FIXED | INERT),
    Param("syslog-ident", _TEXT, "redis", FIXED | INERT),
    Param(
        "syslog-facility",
        Enum("user local0 local1 local2 local3 local4 local5 local6 local7"),
        "local0",
        FIXED | INERT,
    ),
    Param("oom-score-adj", Enum("no yes relative absolute", {"relative": "yes"}), "no", INERT),
    Param("oom-score-adj-values", OomScores(), "0 200 800", INERT),
    Param("disable-thp", _BOOL, "yes", FIXED | INERT),
    Param("jemalloc-bg-thread", _BOOL, "yes", INERT),
    Param("crash-log-enabled", _BOOL, "yes", INERT),
    Param("crash-memcheck-enabled", _BOOL, "yes", INERT),
    Param("use-exit-on-panic", _BOOL, "no", INERT | HIDDEN),
    Param("watchdog-period", _COUNT, "0", INERT | HIDDEN),
    Param("propagation-error-behavior", Enum("ignore panic panic-on-replicas"), "ignore", INERT),
    # Redis refuses `yes` if it was built without its own allocator; here it has no effect.
    Param("activedefrag", _BOOL, "no", INERT),
    Param("active-defrag-cycle-min", Int(1, 99), "1", INERT),
    Param("active-defrag-cycle-max", Int(1, 99), "25", INERT),
    Param("active-defrag-ignore-bytes", Memory(1, LONG_MAX), "100mb", INERT),
    Param("active-defrag-max-scan-fields", Int(1, LONG_MAX), "1000", INERT),
    Param("active-defrag-threshold-lower", Int(0, 1000), "10", INERT),
    Param("active-defrag-threshold-upper", Int(0, 1000), "100", INERT),
    # Files of Redis; we write none of them.
    Param(
        "dbfilename",
        _plain_name("dbfilename", "filename", may_be_empty=True),
        "dump.rdb",
        Use.PROTECTED | INERT,
    ),
    Param("rdbcompression", _BOOL, "yes", INERT),
    Param("rdbchecksum", _BOOL, "yes", FIXED | INERT),
    Param("rdb-del-sync-files", _BOOL, "no", INERT),
    Param("rdb-save-incremental-fsync", _BOOL, "yes", INERT),
    Param("rdb-key-save-delay", _ANY_INT, "0", HIDDEN),  # microseconds; for tests
    Param("key-load-delay", _ANY_INT, "0", INERT | HIDDEN),
    Param("loading-process-events-interval-bytes", Int(1024), "2097152", INERT | HIDDEN),
    Param("sanitize-dump-payload", Enum("no yes clients"), "no", INERT),
    Param(
        "appendfilename",
        _plain_name("appendfilename", "filename"),
        "appendonly.aof",
        FIXED | INERT,
    ),
    Param(
        "appenddirname",
        _plain_name("appenddirname", "dirname"),
        "appendonlydir",
        FIXED | INERT,
    ),
    Param("no-appendfsync-on-rewrite", _BOOL, "no", INERT),
    Param("auto-aof-rewrite-percentage", _COUNT, "100", INERT),
    Param("auto-aof-rewrite-min-size", _SIZE, "64mb", INERT),
    Param("aof-load-truncated", _BOOL, "yes", INERT),
    Param("aof-use-rdb-preamble", _BOOL, "yes", INERT),
    Param("aof-rewrite-incremental-fsync", _BOOL, "yes", INERT),
    Param("aof-timestamp-enabled", _BOOL, "no", INERT),
    Param("aof-disable-auto-gc", _BOOL, "no", INERT),
    # Redis's replication and cluster.
    Param("replicaof", ReplicaOf(2, ""), "", FIXED, "slaveof"),
    Param("masteruser", _TEXT, "", SECRET),
    Param("masterauth", Secret(), "", SECRET),
    Param("replica-announced", _BOOL, "yes"),
    Param("replica-announce-ip", _TEXT, "", alias="slave-announce-ip"),
    Param("replica-announce-port", _PORT, "0", alias="slave-announce-port"),
    Param("replica-ignore-disk-write-errors", _BOOL, "no", INERT),
    Param("replica-ignore-maxmemory", _BOOL, "yes", INERT, "slave-ignore-maxmemory"),
    Param("replica-lazy-flush", _BOOL, "no", INERT, "slave-lazy-flush"),
    Param("replica-priority", _COUNT, "100", alias="slave-priority"),
    Param("replica-read-only", _BOOL, "yes", alias="slave-read-only"),
    Param("replica-serve-stale-data", _BOOL, "yes", alias="slave-serve-stale-data"),
    # If the snapshot of a primary has values of types that Holdfast does not have: whether the
    # replica follows without these values.
    Param("replica-skip-unknown", _BOOL, "no", HIDDEN),
    Param("repl-backlog-size", Memory(1, LONG_MAX, (1 << 14, LONG_MAX)), "1mb"),
    Param("repl-backlog-ttl", _LONG, "3600"),
    Param("repl-disable-tcp-nodelay", _BOOL, "no", INERT),
    Param("repl-diskless-load", Enum("disabled on-empty-db swapdb"), "disabled", INERT),
    Param("repl-diskless-sync", _BOOL, "yes"),
    Param("repl-diskless-sync-delay", _COUNT, "5", INERT),
    Param("repl-diskless-sync-max-replicas", _COUNT, "0", INERT),
    Param("repl-ping-replica-period", Int(1), "10", alias="repl-ping-slave-period"),
    Param("repl-timeout", Int(1), "60"),
    Param("min-replicas-max-lag", _COUNT, "10", alias="min-slaves-max-lag"),
    Param("min-replicas-to-write", _COUNT, "0", alias="min-slaves-to-write"),
    Param("cluster-enabled", _BOOL, "no", FIXED | INERT),
    Param("cluster-config-file", _TEXT, "nodes.conf", FIXED | INERT),
    Param("cluster-port", _PORT, "0", FIXED | INERT),
    Param("cluster-announce-ip", _TEXT, "", INERT),
    Param("cluster-announce-hostname", Text(_host_name), "", INERT),
    Param("cluster-announce-human-nodename", _TEXT, "", INERT),
    Param("cluster-announce-port", _PORT, "0", INERT),
    Param("cluster-announce-tls-port", _PORT, "0", INERT),
    Param("cluster-announce-bus-port", _PORT, "0", INERT),
    Param("cluster-allow-pubsubshard-when-down", _BOOL, "yes", INERT),
    Param("cluster-allow-reads-when-down", _BOOL, "no", INERT),
    Param("cluster-allow-replica-migration", _BOOL, "yes", INERT),
    Param("cluster-link-sendbuf-limit", Memory(0, ULONG_MAX), "0", INERT),
    Param("cluster-migration-barrier", _COUNT, "1", INERT),
    Param("cluster-node-timeout", _LONG, "15000", INERT),
    Param("cluster-preferred-endpoint-type", Enum("ip hostname unknown-endpoint"), "ip", INERT),
    Param("cluster-replica-no-failover", _BOOL, "no", INERT, "cluster-slave-no-failover"),
    Param("cluster-replica-validity-factor", _COUNT, "10", INERT, "cluster-slave-validity-factor"),
    Param("cluster-require-full-coverage", _BOOL, "yes", INERT),
    # Directives that Redis 7 reads and ignores.
    Param("list-max-ziplist-entries", _TEXT, "", FILE | INERT),
    Param("list-max-ziplist-value", _TEXT, "", FILE | INERT),
    Param("lua-replicate-commands", _TEXT, "", FILE | INERT),
)


def _with_files_of_secrets() -> Iterator[Param]:
    """The parameters. A secret NAME may stand in a file of its own, which NAME-file names."""
    for param in _PARAMS:
        yield param
        if SECRET in param.use and INERT not in param.use:
            use = FIXED | HIDDEN | (param.use & FILE)
            yield Param(f"{param.name}-file", _TEXT, "", use, content_of=param.name)


TABLE: tuple[Param, ...] = tuple(_with_files_of_secrets())

BY_NAME: dict[str, Param] = {name: param for param in TABLE for name in param.names}
