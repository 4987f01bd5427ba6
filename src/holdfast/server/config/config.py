"""The configuration of one server: its values, CONFIG GET, SET and REWRITE.

The table of parameters is in `parameters.py`. Nothing here applies a value: code that needs a
parameter reads its attribute or subscribes to it.
"""

import enum
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from holdfast.errors import CommandError, ConfigError
from holdfast.glob import compile_glob
from holdfast.resp.c_strings import c_string
from holdfast.server.config.directives import Directive, read_file, read_options, rewrite_file
from holdfast.server.config.environment import read_environment, strange_variables
from holdfast.server.config.parameters import BY_NAME, TABLE, Param, Use
from holdfast.server.config.secret_files import SecretFile
from holdfast.server.config.value_kinds import BufferLimit, BufferLimits, SavePoint

__all__ = ["BufferLimit", "BufferLimits", "Config", "SavePoint"]


class Source(enum.IntEnum):
    """Where a value comes from. The higher one wins."""

    FILE = 1
    ENVIRONMENT = 2
    OPTION = 3


class Config:
    """Each parameter is an attribute, by its name with `_` for `-`, and always up to date. Code may
    read only those that are declared here; a test compares them with the table."""

    db: str
    dir: str
    databases: int
    accept_data_loss: bool
    no_backup: bool
    active_active: bool
    active_active_cluster: str
    active_active_log_limit: int
    node_id: int
    peer: tuple[tuple[bytes], ...]
    appendonly: bool
    appendfsync: str
    fold_age_ms: int
    save: tuple[SavePoint, ...]
    bind: tuple[str, ...]
    port: int
    tcp_backlog: int
    tcp_keepalive: int
    unixsocket: str
    unixsocketperm: int
    protected_mode: bool
    maxclients: int
    timeout: int
    auth_timeout: int
    shutdown_timeout: int
    proto_max_bulk_len: int
    client_query_buffer_limit: int
    client_output_buffer_limit: BufferLimits
    blocking_max_waiters_per_key: int
    blocking_max_total_waiters: int
    blocking_max_keys_per_wait: int
    blocking_wakeup_batch_size: int
    huge_pages: bool
    maxmemory: int
    maxmemory_policy: str
    maxmemory_samples: int
    maxmemory_clients: int
    lfu_decay_time: int
    lfu_log_factor: int
    hz: int
    hash_max_listpack_entries: int
    hash_max_listpack_value: int
    set_max_intset_entries: int
    zset_max_listpack_entries: int
    zset_max_listpack_value: int
    stream_node_max_bytes: int
    stream_node_max_entries: int
    stream_idmp_duration: int
    stream_idmp_maxsize: int
    hll_sparse_max_bytes: int
    requirepass: bytes
    aclfile: str
    acllog_max_len: int
    acl_pubsub_default: str
    enable_protected_configs: str
    enable_debug_command: str
    rename_command: tuple[tuple[bytes, bytes], ...]
    user: tuple[tuple[bytes, ...], ...]
    busy_reply_threshold: int
    lua_hard_time_limit: int
    lua_max_memory: int
    notify_keyspace_events: frozenset[str]
    tracking_table_max_keys: int
    redis_version: str
    loglevel: str
    logfile: str
    log_format: str
    supervised: str
    dbfilename: str
    appenddirname: str
    pidfile: str
    slowlog_log_slower_than: int
    slowlog_max_len: int
    commandlog_request_larger_than: int
    commandlog_large_request_max_len: int
    commandlog_reply_larger_than: int
    commandlog_large_reply_max_len: int
    latency_monitor_threshold: int
    latency_tracking: bool
    latency_tracking_info_percentiles: tuple[float, ...]
    min_replicas_max_lag: int
    min_replicas_to_write: int
    repl_backlog_size: int
    repl_backlog_ttl: int
    repl_diskless_sync: bool
    rdb_key_save_delay: int
    repl_ping_replica_period: int
    repl_timeout: int
    replicaof: tuple[str, ...]
    masteruser: str
    masterauth: bytes
    replica_announced: bool
    replica_announce_ip: str
    replica_announce_port: int
    replica_priority: int
    replica_read_only: bool
    replica_serve_stale_data: bool
    replica_skip_unknown: bool
    tls_replication: bool
    tls_port: int
    http_port: int
    http_bind: tuple[str, ...]
    dashboard: bool
    dashboard_port: int
    dashboard_bind: tuple[str, ...]
    tls_cert_file: str
    tls_key_file: str
    tls_key_file_pass: str
    tls_ca_cert_file: str
    tls_ca_cert_dir: str
    tls_dh_params_file: str
    tls_auth_clients: str
    tls_protocols: str
    tls_ciphers: str
    tls_ciphersuites: str
    tls_prefer_server_ciphers: bool

    def __init__(self, overrides: Mapping[str, str | int] | None = None) -> None:
        """`overrides` are parameters as Python names and values: `_` for `-`, True for yes."""
        self.file: Path | None = None
        self.warnings: list[str] = []  # about the sources, for the log
        self.origins: dict[str, str] = {}  # by name: the line, variable or option that has set it
        self._sources: dict[str, Source] = {}
        self._kept_elsewhere: dict[str, Any] = {}  # secrets that CONFIG REWRITE does not write
        self._subscribers: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)
        for param in TABLE:
            self._store(param, param.initial())
        for argument, value in (overrides or {}).items():
            name = argument.replace("_", "-")
            text = ("no", "yes")[value] if isinstance(value, bool) else str(value)
            self._load(Directive(name, [text.encode()], "", f"option '{name}'"), Source.OPTION)

    @classmethod
    def from_sources(
        cls,
        file: Path | None,
        options: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """The defaults, then a redis.conf-style file, then HOLDFAST_ variables of the environment,
        then `--name value` options: the last one wins."""
        config = cls()
        environ = environ or {}
        if file is not None:
            config.file = file.absolute()
            for directive in read_file(file):
                config._load(directive, Source.FILE)
        for directive in read_environment(environ):
            config._load(directive, Source.ENVIRONMENT)
        for directive in read_options(options):
            config._load(directive, Source.OPTION)
        config.warnings = list(strange_variables(environ))
        config._read_secret_files()
        return config

    def get(self, *patterns: bytes) -> list[tuple[bytes, bytes]]:
        """Names and values as CONFIG GET shows them, each name once. A name without `*`, `?` or `[`
        is shown in the spelling of the client, and may be a hidden one."""
        found: dict[str, tuple[bytes, bytes]] = {}
        for pattern in patterns:
            if not any(special in pattern for special in (b"*", b"?", b"[")):
                name = pattern.decode("latin-1").lower()
                if _known(name) and name not in found:
                    found[name] = (pattern, self._shown(BY_NAME[name]))
                continue
            matches = compile_glob(pattern, nocase=True)
            for name, param in BY_NAME.items():
                visible = not param.use & (Use.HIDDEN | Use.FILE)
                if visible and name not in found and matches(name.encode()):
                    found[name] = (name.encode(), self._shown(param))
        return list(found.values())

    def set_many(self, pairs: Sequence[tuple[bytes, bytes]], *, local: bool = False) -> None:
        """CONFIG SET: all of `pairs` or none. `local`: the client is on this machine, which matters
        for `enable-protected-configs local`."""
        allowed = self.enable_protected_configs == "yes" or (
            local and self.enable_protected_configs == "local"
        )
        names: list[str] = []
        for asked, text in pairs:
            name = asked.decode("latin-1").lower()
            if not _known(name):
                raise CommandError(
                    b"ERR Unknown option or number of arguments for CONFIG SET - '%s'"
                    % _printable(asked)
                )
            if Use.FIXED in BY_NAME[name].use and not self._is_own_value(BY_NAME[name], text):
                raise _refused(asked, "can't set immutable config")
            if Use.PROTECTED in BY_NAME[name].use and not allowed:
                raise _refused(asked, "can't set protected config")
            if name in names:
                raise _refused(asked, "duplicate parameter")
            names.append(name)

        values: dict[Param, Any] = {}
        asked_as: dict[Param, str] = {}
        for name, (_, text) in zip(names, pairs, strict=True):
            param = BY_NAME[name]
            try:
                current = values.get(param, self._value(param))
                values[param] = param.kind.parse(param.split(text), current)
                asked_as[param] = name
            except ValueError as error:
                raise _refused(name.encode(), str(error)) from None
        self._apply(values, asked_as)

    def _is_own_value(self, param: Param, text: bytes) -> bool:
        return Use.OWN in param.use and text == self._shown(param)

    def _apply(self, values: Mapping[Param, Any], asked_as: Mapping[Param, str]) -> None:
        before = {param: self._value(param) for param in values}
        changed = [
            param
            for param, value in values.items()
            if value != before[param] or Use.NAMES_FILE in param.use
        ]
        origins = dict(self.origins)
        for param in changed:
            self._store(param, values[param])
            self.origins[param.name] = "CONFIG SET"
        for param in changed:
            try:
                self._announce(param)
            except ConfigError as error:
                self.origins = origins
                for other in changed:
                    self._store(other, before[other])
                for other in changed[: changed.index(param) + 1]:
                    # the old value was accepted before, so no error is expected
                    with suppress(ConfigError):
                        self._announce(other)
                raise _refused(asked_as[param].encode(), str(error)) from None

    def subscribe(self, name: str, callback: Callable[[], None]) -> None:
        """Call `callback` after CONFIG SET has changed this parameter. A callback that cannot apply
        the value raises ConfigError with the reason. Then all parameters of the same CONFIG SET get
        their old values, and the callbacks so far are called again."""
        self._subscribers[BY_NAME[name].name].append(callback)

    def _announce(self, param: Param) -> None:
        for callback in self._subscribers[param.name]:
            callback()

    def rewrite(self) -> None:
        """CONFIG REWRITE: change the lines of the file whose values have changed, and add missing
        lines."""
        file = self.file
        if file is None:
            raise CommandError("ERR The server is running without a config file")
        try:
            there = type(self).from_sources(file if file.exists() else None)
            changed = self._differences(there)
            lines = {tuple(param.names): param.kind.lines(self._value(param)) for param in changed}
            if lines:
                rewrite_file(file, lines, self._check_rewritten)
        except OSError as error:
            raise CommandError(f"ERR Rewriting config file: {error.strerror}") from None
        except ConfigError as error:
            raise CommandError(f"ERR Rewriting config file: {error}") from None

    def _check_rewritten(self, file: Path) -> None:
        wrong = self._differences(type(self).from_sources(file))
        if wrong:
            raise ConfigError(f"an included file decides about '{wrong[0].name}'")

    def _differences(self, other: "Config") -> list[Param]:
        """The parameters that differ. Secrets that are still those of the environment, or of a file
        of their own, are left out."""
        return [
            param
            for param in TABLE
            if (value := self._value(param)) != getattr(other, param.attribute)
            and (param.name, value) not in self._kept_elsewhere.items()
        ]

    @property
    def db_path(self) -> str:
        """The place of the database: `:memory:`, or an absolute path."""
        return self.db if self.db == ":memory:" else self.path(self.db)

    def path(self, name: str) -> str:
        """A file name in the configuration as an absolute path; they are relative to `dir`."""
        return os.path.join(self.dir, name)

    def without_effect(self) -> list[str]:
        """Parameters that have another value than their default, and no effect here."""
        inert = (param for param in TABLE if Use.INERT in param.use)
        return [param.name for param in inert if self._value(param) != param.initial()]

    def put(self, name: str, value: str) -> None:
        """Set a parameter from inside of the server, also a fixed one. No subscriber is called."""
        param = BY_NAME[name]
        self._store(param, param.kind.parse(param.split(value.encode()), self._value(param)))

    def _load(self, directive: Directive, source: Source) -> None:
        param = BY_NAME.get(directive.name)
        if param is None:
            hint = _did_you_mean(directive.name, "--" if "'--" in directive.word else "")
            raise ConfigError(f"{directive.origin}unknown {directive.word}{hint}")
        args = directive.args
        if not args:
            raise directive.error("a value is missing")
        if param.kind.many and len(args) == 1:
            args = param.split(args[0])
        try:
            value = param.kind.parse(args, self._value(param))
        except ValueError as error:
            raise directive.error(str(error)) from None
        if param.kind.adds and value and param.name in self._sources:
            value = self._value(param) + value
        self._sources[param.name] = source
        self.origins[param.name] = directive.origin.removesuffix(": ") or directive.word
        self._store(param, value)
        if source is Source.ENVIRONMENT and Use.SECRET in param.use:
            self._kept_elsewhere[param.name] = value

    def _read_secret_files(self) -> None:
        """Take secrets from the files that contain them, unless a source of higher rank has the
        secret itself."""
        for param in TABLE:
            path = self._value(param) if param.content_of else ""
            if not path:
                continue
            secret = BY_NAME[param.content_of]
            given = self._sources.get(secret.name)
            if not secret.kind.adds and given is not None:
                if given == self._sources[param.name]:
                    raise ConfigError(
                        f"{secret.name} and {param.name} are both given; one of them is enough"
                    )
                if given > self._sources[param.name]:
                    continue
            file = SecretFile(Path(self.path(path)), self.origins[param.name])
            self.warnings += file.warnings
            for args in file.arguments(secret.kind):
                directive = Directive(secret.name, args, "", file.word)
                self._load(directive, self._sources[param.name])
            self._kept_elsewhere[secret.name] = self._value(secret)

    def _value(self, param: Param) -> Any:
        return getattr(self, param.attribute)

    def _store(self, param: Param, value: Any) -> None:
        setattr(self, param.attribute, value)

    def _shown(self, param: Param) -> bytes:
        return param.kind.show(self._value(param))


def _known(name: str) -> bool:
    return name in BY_NAME and Use.FILE not in BY_NAME[name].use


def _did_you_mean(name: str, dashes: str) -> str:
    import difflib  # takes a millisecond, and most names are right

    close: Iterable[str] = difflib.get_close_matches(name, BY_NAME, 1, 0.7)
    return "".join(f" (did you mean '{dashes}{match}'?)" for match in close)


def _printable(name: bytes) -> bytes:
    """A name for an error line. It ends at a line end or a NUL, as a C string would."""
    return c_string(name).replace(b"\r", b" ").replace(b"\n", b" ")


def _refused(name: bytes, reason: str) -> CommandError:
    return CommandError(
        b"ERR CONFIG SET failed (possibly related to argument '%s') - %s"
        % (_printable(name), reason.encode())
    )
