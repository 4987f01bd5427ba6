"""Everything that can be set, with its default, and the URLs that set it. No I/O."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict
from urllib.parse import parse_qsl, unquote, urlsplit

from holdfast.client import pipeline
from holdfast.client.hooks import Hooks


@dataclass(frozen=True, slots=True)
class Backoff:
    """When to try again. A connection that opened starts counting from zero."""

    immediate: int = 5
    first_s: float = 0.1
    cap_s: float = 30.0
    jitter: float = 0.2

    def delay_s(self, attempt: int, random: float) -> float:
        """Before attempt 1, 2, …; `random` lies between 0 and 1."""
        if attempt <= self.immediate:
            return 0.0
        doublings = min(attempt - self.immediate - 1, 64)
        return min(self.first_s * 2.0**doublings, self.cap_s) * (1 + self.jitter * (2 * random - 1))


@dataclass(frozen=True, slots=True)
class Options:
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
    close_grace_s: float = 5.0
    keepalive_s: int | None = 30
    max_requests: int = pipeline.MAX_REQUESTS
    max_bytes: int = pipeline.MAX_BYTES
    reconnect: bool = True
    backoff: Backoff = field(default_factory=Backoff)
    cache_keys: int = 0  # client-side caching of that many keys

    @property
    def address(self) -> str:
        return self.path or (f"[{self.host}]" if ":" in self.host else self.host) + f":{self.port}"


class ConnectOptions(TypedDict, total=False):
    """The keywords of `holdfast.connect`: `Options`, except what only a URL says, and hooks."""

    tls: ssl.SSLContext | None
    db: int
    username: str | None
    password: str | None
    client_name: str | None
    protocol: int
    resolve_timeout_s: float | None
    connect_timeout_s: float | None
    request_timeout_s: float | None
    close_grace_s: float
    keepalive_s: int | None
    max_requests: int
    max_bytes: int
    reconnect: bool
    backoff: Backoff
    cache_keys: int
    hooks: Iterable[Hooks]


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL names: the way there, and how to talk when there."""

    scheme: str
    options: Options
    seeds: tuple[tuple[str, int], ...] = ()  # of a cluster, or its sentinels
    service: str = ""  # of which the sentinels know the master
    path: str = ""  # of a database file


SERVER_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster")
LOCAL_SCHEMES = ("holdfast", "memory")
_NUMBERS = {"db": int, "protocol": int, "max_requests": int, "max_bytes": int, "cache_keys": int}
_SECONDS = ("resolve_timeout_s", "connect_timeout_s", "request_timeout_s", "close_grace_s")


def parse_url(url: str, **options: Any) -> Target:
    """`scheme://user:password@host:port/db?option=value`; keyword options win.

    redis, rediss (TLS), unix:///path?db=1, redis+sentinel://host:port,host:port/service/db,
    redis+cluster://host:port,host:port, holdfast:///path/app.db, memory://
    """
    parts = urlsplit(url)
    scheme = parts.scheme
    if scheme not in SERVER_SCHEMES + LOCAL_SCHEMES:
        known = ", ".join(SERVER_SCHEMES + LOCAL_SCHEMES)
        raise ValueError(f"unknown scheme {scheme!r} in the URL; known: {known}")
    values: dict[str, Any] = {}
    login, _, hosts = parts.netloc.rpartition("@")
    user, colon, password = login.partition(":")
    if user:
        values["username"] = unquote(user)
    if colon:
        values["password"] = unquote(password)
    path = unquote(parts.path)
    service = ""
    if scheme == "holdfast" and (hosts or not path):  # else holdfast://data/app.db is /app.db
        raise ValueError("a URL of a file has three slashes: holdfast:///path/app.db")
    if scheme in ("unix", "holdfast"):
        values["path"] = path
    elif scheme == "redis+sentinel":
        service, _, path = path.strip("/").partition("/")
        if not service:
            raise ValueError("a sentinel URL names its service: redis+sentinel://host:port/service")
    if scheme in ("redis", "rediss", "redis+sentinel") and path.strip("/"):
        values["db"] = _whole(path.strip("/"), "the database")
    seeds = _seeds(hosts, 26379 if scheme == "redis+sentinel" else 6379)
    if scheme in ("redis", "rediss"):
        values["host"], values["port"] = seeds[0]
    if scheme == "rediss":
        values["tls"] = ssl.create_default_context()
    for name, text in parse_qsl(parts.query):
        values[name] = _option(name, text)
    return Target(scheme, replace(Options(), **(values | options)), seeds, service, path)


def _seeds(hosts: str, port: int) -> tuple[tuple[str, int], ...]:
    def seed(text: str) -> tuple[str, int]:
        host, colon, number = text.rpartition(":")
        if not colon or number.endswith("]"):
            host, number = text, ""
        host = unquote(host.removeprefix("[").removesuffix("]")) or "localhost"
        return host, _whole(number, "the port") if number else port

    return tuple(seed(text) for text in hosts.split(","))


def _option(name: str, text: str) -> Any:
    if name in _NUMBERS:
        return _whole(text, name)
    if name in _SECONDS:
        return None if text == "none" else float(text)
    if name == "client_name":
        return text
    if name == "reconnect":
        return text.lower() not in ("0", "no", "false")
    raise ValueError(f"unknown option {name!r} in the URL")


def _whole(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{what} in the URL is no number: {text!r}") from None
