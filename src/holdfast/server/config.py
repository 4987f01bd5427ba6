"""The configuration of one server: its values, CONFIG GET, SET and REWRITE.

Which parameters exist is in `config_table.py`. Nothing here applies a value to
anything: who cares about a parameter reads its attribute or subscribes to it.
"""

import difflib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from holdfast.errors import CommandError, ConfigError
from holdfast.glob import compile_glob
from holdfast.server.config_file import Directive, read_file, read_options, rewrite_file
from holdfast.server.config_kinds import BufferLimit, BufferLimits, SavePoint
from holdfast.server.config_table import BY_NAME, TABLE, Param, Use

__all__ = ["BufferLimit", "BufferLimits", "Config", "SavePoint"]


class Config:
    """Every parameter is an attribute by its name with `_` for `-`, always up to date. Those
    declared here are the ones that code may read; a test holds them against the table."""

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
    active_expire_effort: int
    hz: int
    hash_max_listpack_entries: int
    hash_max_listpack_value: int
    list_max_listpack_size: int
    set_max_intset_entries: int
    set_max_listpack_entries: int
    set_max_listpack_value: int
    zset_max_listpack_entries: int
    zset_max_listpack_value: int
    stream_node_max_bytes: int
    stream_node_max_entries: int
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
    loglevel: str
    logfile: str
    pidfile: str
    slowlog_log_slower_than: int
    slowlog_max_len: int
    latency_monitor_threshold: int
    latency_tracking: bool
    latency_tracking_info_percentiles: tuple[float, ...]
    tls_port: int
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

    def __init__(self, overrides: Mapping[str, str] | None = None) -> None:
        self.file: Path | None = None
        self._loaded: set[str] = set()
        self._subscribers: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)
        for param in TABLE:
            self._store(param, param.initial())
        for name, value in (overrides or {}).items():
            self._load(Directive(name, [value.encode()], "", f"option '{name}'"))

    @classmethod
    def from_sources(cls, file: Path | None, options: Sequence[str] = ()) -> Self:
        """The defaults, then a redis.conf-style file, then `--name value` options."""
        config = cls()
        if file is not None:
            config.file = file.absolute()
            for directive in read_file(file):
                config._load(directive)
        for directive in read_options(options):
            config._load(directive)
        return config

    def get(self, *patterns: bytes) -> list[tuple[bytes, bytes]]:
        """Names and values as CONFIG GET shows them, each name once. A name without `*`, `?`
        or `[` is answered in the spelling it was asked in, and may be a hidden one."""
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
        """CONFIG SET: all of `pairs` or none. `local` says that the client is on this machine,
        which `enable-protected-configs local` asks for."""
        allowed = self.enable_protected_configs == "yes" or (
            local and self.enable_protected_configs == "local"
        )
        names: list[str] = []
        for asked, _ in pairs:
            name = asked.decode("latin-1").lower()
            if not _known(name):
                raise CommandError(
                    b"ERR Unknown option or number of arguments for CONFIG SET - '%s'"
                    % _printable(asked)
                )
            if Use.FIXED in BY_NAME[name].use:
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

    def _apply(self, values: Mapping[Param, Any], asked_as: Mapping[Param, str]) -> None:
        before = {param: self._value(param) for param in values}
        changed = [
            param
            for param, value in values.items()
            if value != before[param] or Use.NAMES_FILE in param.use
        ]
        for param in changed:
            self._store(param, values[param])
        for param in changed:
            try:
                self._announce(param)
            except ConfigError as error:
                for other in changed:
                    self._store(other, before[other])
                for other in changed[: changed.index(param) + 1]:
                    with suppress(ConfigError):  # the old value: it worked, there is no plan C
                        self._announce(other)
                raise _refused(asked_as[param].encode(), str(error)) from None

    def subscribe(self, name: str, callback: Callable[[], None]) -> None:
        """Call back after CONFIG SET has changed this parameter. A callback that cannot do
        what it says raises ConfigError with the reason: then everything in the same CONFIG
        SET is put back, and those already told are told again."""
        self._subscribers[BY_NAME[name].name].append(callback)

    def _announce(self, param: Param) -> None:
        for callback in self._subscribers[param.name]:
            callback()

    def rewrite(self) -> None:
        """CONFIG REWRITE: change the lines whose values are no longer true, and add those
        that are missing."""
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
        names = ((param, param.attribute) for param in TABLE)
        return [param for param, name in names if getattr(self, name) != getattr(other, name)]

    @property
    def db_path(self) -> str:
        """Where the database is: `:memory:`, or an absolute path."""
        return self.db if self.db == ":memory:" else self.path(self.db)

    def path(self, name: str) -> str:
        """A file name in the configuration as an absolute path; they are relative to `dir`."""
        return os.path.join(self.dir, name)

    def without_effect(self) -> list[str]:
        """Parameters that were given another value than their default, and mean nothing here."""
        inert = (param for param in TABLE if Use.INERT in param.use)
        return [param.name for param in inert if self._value(param) != param.initial()]

    def put(self, name: str, value: str) -> None:
        """Set one parameter from inside, fixed or not, without telling anyone."""
        param = BY_NAME[name]
        self._store(param, param.kind.parse(param.split(value.encode()), self._value(param)))

    def _load(self, directive: Directive) -> None:
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
        if param.kind.adds and value and param.name in self._loaded:
            value = self._value(param) + value
        self._loaded.add(param.name)
        self._store(param, value)

    def _value(self, param: Param) -> Any:
        return getattr(self, param.attribute)

    def _store(self, param: Param, value: Any) -> None:
        setattr(self, param.attribute, value)

    def _shown(self, param: Param) -> bytes:
        return param.kind.show(self._value(param))


def _known(name: str) -> bool:
    return name in BY_NAME and Use.FILE not in BY_NAME[name].use


def _did_you_mean(name: str, dashes: str) -> str:
    close: Iterable[str] = difflib.get_close_matches(name, BY_NAME, 1, 0.7)
    return "".join(f" (did you mean '{dashes}{match}'?)" for match in close)


def _printable(name: bytes) -> bytes:
    """A name inside an error line, which ends where the line or a C string would."""
    return name.partition(b"\0")[0].replace(b"\r", b" ").replace(b"\n", b" ")


def _refused(name: bytes, reason: str) -> CommandError:
    return CommandError(
        b"ERR CONFIG SET failed (possibly related to argument '%s') - %s"
        % (_printable(name), reason.encode())
    )
