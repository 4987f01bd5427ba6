"""All options with their defaults, and the URLs that set them. No I/O."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypedDict
from urllib.parse import parse_qsl, unquote

from holdfast.client.protocol import pipeline, reply_parser
from holdfast.client.transport.hooks import Hooks

Address: TypeAlias = tuple[str, int]


def address_of(host: object, port: object) -> Address | None:
    """The address in a server's reply about another server; None if it is no address."""
    try:
        name = host.decode() if isinstance(host, bytes) else ""
        number = int(port) if isinstance(port, bytes | str | int) else 0
    except ValueError:
        return None
    return (name, number) if name and 0 < number < 65536 else None


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delay before an attempt to reconnect. An opened connection counts from zero again."""

    immediate: int = 5
    first_s: float = 0.1
    cap_s: float = 30.0
    jitter: float = 0.2

    def delay_s(self, attempt: int, random: float) -> float:
        """The delay before attempt 1, 2, …; `random` is between 0 and 1."""
        if attempt <= self.immediate:
            return 0.0
        doublings = min(attempt - self.immediate - 1, 64)
        return min(self.first_s * 2.0**doublings, self.cap_s) * (1 + self.jitter * (2 * random - 1))


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How to reach one server. A timeout of None means for ever."""

    host: str = "localhost"
    port: int = 6379
    path: str | None = None  # of a unix socket or a file, instead of host and port
    tls: ssl.SSLContext | None = None
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    client_name: str | None = None
    protocol: int = 3
    resolve_timeout_s: float | None = 5.0
    connect_timeout_s: float | None = 5.0
    request_timeout_s: float | None = 5.0
    silence_timeout_s: float | None = 5.0  # None: a connection that does not answer is kept
    close_grace_s: float = 5.0
    keepalive_s: int | None = 30
    max_requests: int = pipeline.MAX_REQUESTS
    max_bytes: int = pipeline.MAX_BYTES
    max_reply_elements: int = 1 << 24  # of one array, set or map
    max_reply_bytes: int = reply_parser.MAX_BULK_BYTES  # of one string
    reconnect: bool = True
    backoff: Backoff = field(default_factory=Backoff)
    cache_keys: int = 0  # number of replies in the client-side cache
    cache_bytes: int = 64 << 20  # bytes in the client-side cache
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    place: str | None = None  # its name in messages, if it has no single address

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ZERO:
            value = getattr(self, name)
            if value is not None and not value >= 0:  # also true for NaN
                raise ValueError(f"{name} is {value}; it cannot be less than 0")
        if self.protocol not in (2, 3):
            raise ValueError(f"protocol is {self.protocol}; it can be 2 or 3")
        if not 0 < self.port < 65536:
            raise ValueError(f"the port is {self.port}; it must be between 1 and 65535")
        for user, password in (
            ("username", "password"),
            ("sentinel_username", "sentinel_password"),
        ):
            if getattr(self, user) and getattr(self, password) is None:
                raise ValueError(f"{user} without {password}: redis://user:password@host")

    @property
    def address(self) -> str:
        if self.place or self.path:
            return self.place or self.path or ""
        return (f"[{self.host}]" if ":" in self.host else self.host) + f":{self.port}"


class ConnectOptions(TypedDict, total=False):
    """The keywords of `holdfast.connect`: `ClientOptions` without the parts of a URL, and hooks."""

    tls: ssl.SSLContext | None
    db: int
    username: str | None
    password: str | None
    client_name: str | None
    protocol: int
    resolve_timeout_s: float | None
    connect_timeout_s: float | None
    request_timeout_s: float | None
    silence_timeout_s: float | None
    close_grace_s: float
    keepalive_s: int | None
    max_requests: int
    max_bytes: int
    max_reply_elements: int
    max_reply_bytes: int
    reconnect: bool
    backoff: Backoff
    cache_keys: int
    cache_bytes: int
    sentinel_username: str | None
    sentinel_password: str | None
    hooks: Iterable[Hooks]


@dataclass(frozen=True, slots=True)
class Target:
    """The content of a URL: the address, and the options of the connection."""

    scheme: str
    options: ClientOptions
    seeds: tuple[tuple[str, int], ...] = ()  # of a cluster, or its sentinels
    service: str = ""  # the name by which the sentinels know the master
    path: str = ""  # of a database file


SERVER_SCHEMES = ("redis", "rediss", "unix")
SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
CLUSTER_SCHEMES = ("redis+cluster", "rediss+cluster")
LOCAL_SCHEMES = ("holdfast", "memory")
_SCHEMES = SERVER_SCHEMES + SENTINEL_SCHEMES + CLUSTER_SCHEMES + LOCAL_SCHEMES
_LIMITS = ("max_requests", "max_bytes", "max_reply_elements", "max_reply_bytes")
_NUMBERS = ("db", "protocol", *_LIMITS, "cache_keys", "cache_bytes", "keepalive_s")
_TIMEOUTS = ("resolve_timeout_s", "connect_timeout_s", "request_timeout_s", "silence_timeout_s")
_SECONDS = (*_TIMEOUTS, "close_grace_s")
_MAY_BE_NONE = (*_TIMEOUTS, "keepalive_s")
_TEXTS = ("client_name", "username", "password", "sentinel_username", "sentinel_password")
_AT_LEAST_ZERO = (*_SECONDS, *_LIMITS, "db", "cache_keys", "cache_bytes", "keepalive_s")
# A failover ends while the client waits before its next attempt: keep the wait short.
_CAP_WITH_SENTINELS_S = 2.0
_TRUTH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def parse_server_url(url: str) -> Target:
    """Does the same as `parse_url`, for the schemes of a single server."""
    return _parse(url, SERVER_SCHEMES, {})


def parse_url(url: str, **options: Any) -> Target:
    """`scheme://user:password@host:port/db?option=value`; keyword options win.

    redis, rediss (TLS), unix:///path?db=1, redis+sentinel://host:port,host:port/service/db,
    redis+cluster://host:port,host:port, holdfast:///path/app.db, memory://. Raises ValueError,
    with a text that never shows a password.
    """
    return _parse(url, _SCHEMES, options)


def _parse(url: str, schemes: tuple[str, ...], options: dict[str, Any]) -> Target:
    if not isinstance(url, str):
        raise ValueError(f"a URL is text, not {type(url).__name__}")
    scheme, colon, _ = url.partition("://")
    if scheme not in schemes or not colon:
        raise ValueError(f"a URL begins with one of {', '.join(f'{s}://' for s in schemes)}")
    # Not urlsplit: it knows one host only, and newer versions reject a second bracket.
    rest, _, query = url[len(scheme) + 3 :].partition("?")
    place, slash, path = rest.partition("/")
    login, at, hosts = place.rpartition("@")
    if "#" in url or (not at and "@" in url):
        raise ValueError("/, ?, # and @ in a URL's password are written %2F, %3F, %23 and %40")
    user, colon, password = login.partition(":")
    values: dict[str, Any] = {
        name: _option(name, text) for name, text in parse_qsl(query, keep_blank_values=True)
    }
    if user:
        values["username"] = unquote(user)
    if colon:
        values["password"] = unquote(password)
    path, service = unquote(slash + path), ""
    seeds: tuple[tuple[str, int], ...] = ()
    if scheme in ("unix", *LOCAL_SCHEMES):
        values["path"] = path = _file(scheme, hosts, path)
    else:
        seeds = _seeds(hosts, 26379 if scheme in SENTINEL_SCHEMES else 6379)
        values["place"] = ",".join(f"{host}:{port}" for host, port in seeds)
    if scheme.startswith("rediss"):
        values["tls"] = ssl.create_default_context()
    if scheme in SENTINEL_SCHEMES:
        service, _, path = path.strip("/").partition("/")
        if not service:
            raise ValueError("a sentinel URL names its service: redis+sentinel://host:port/service")
        values["place"] = f"{service} at {values['place']}"
        values["backoff"] = Backoff(cap_s=_CAP_WITH_SENTINELS_S)
    elif scheme in ("redis", "rediss"):
        if len(seeds) > 1:
            raise ValueError(f"{scheme}:// names one host; for several use {scheme}+cluster://")
        values["host"], values["port"] = seeds[0]
        del values["place"]
    if seeds and path.strip("/"):
        values["db"] = _whole(path.strip("/"), "the database")
    unknown = set(options) - set(ConnectOptions.__annotations__)
    if unknown:
        raise TypeError(f"connect() has no option {', '.join(sorted(unknown))}")
    merged = ClientOptions(**(values | options))
    if scheme in CLUSTER_SCHEMES and merged.db:
        raise ValueError("a cluster has one database, 0")
    return Target(scheme, merged, seeds, service, path)


def _file(scheme: str, hosts: str, path: str) -> str:
    if scheme == "memory":
        if hosts or path.strip("/"):
            raise ValueError("memory:// has nothing after it: each client has its own database")
        return ":memory:"
    if hosts or not path.strip("/"):  # else holdfast://data/app.db would be /app.db
        raise ValueError(f"a URL of a file has three slashes: {scheme}:///path/name")
    return path


def _seeds(hosts: str, port: int) -> tuple[tuple[str, int], ...]:
    def seed(text: str) -> tuple[str, int]:
        host, colon, number = text.rpartition(":")
        if not colon or number.endswith("]"):
            host, number = text, ""
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise ValueError("an IPv6 address in a URL stands in brackets: redis://[::1]:6379")
        host = unquote(host.removeprefix("[").removesuffix("]")) or "localhost"
        return host, _whole(number, "the port") if number else port

    return tuple(seed(text) for text in hosts.split(","))


def _option(name: str, text: str) -> Any:
    if text == "none" and name in _MAY_BE_NONE:
        return None
    if name in _NUMBERS:
        return _whole(text, name)
    if name in _SECONDS:
        return _seconds(text, name)
    if name in _TEXTS:
        return text
    if name == "reconnect":
        if text.lower() not in _TRUTH:
            raise ValueError(f"reconnect in the URL is yes or no, not {text!r}")
        return _TRUTH[text.lower()]
    raise ValueError(f"unknown option {name!r} in the URL")


def _whole(text: str, what: str) -> int:
    if not text.isascii() or not text.isdigit():
        # The text is not shown: it may be a piece of a password.
        raise ValueError(f"{what} in the URL is no whole number")
    return int(text)


def _seconds(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{what} in the URL is no number of seconds: {text!r}") from None
