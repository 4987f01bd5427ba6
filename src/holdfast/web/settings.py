"""The settings of the dashboard at its start, and the names by which browsers may reach it.

No I/O.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PORT = 8380
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Settings:
    url: str  # of the server; its login is used only for the figures
    password: str | None = None  # for the figures, if it is not in the URL
    bind: tuple[str, ...] = ("127.0.0.1",)
    port: int = DEFAULT_PORT
    hosts: tuple[str, ...] = ()  # additional names in the Host header
    history: Path | None = None  # None: nothing is kept
    certificate: Path | None = None
    certificate_key: Path | None = None
    is_behind_https: bool = False

    @property
    def is_public(self) -> bool:
        """Whether other machines can reach the dashboard. A host name counts as reachable."""
        return not all(map(is_loopback, self.bind))

    @property
    def is_https(self) -> bool:
        return self.is_behind_https or self.certificate is not None

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The accepted Host headers, without ports, in lower case. A page of another site whose
        name leads to this machine sends the name of that site (DNS rebinding)."""
        names = {name.lower() for name in self.hosts}
        names.update(host_name(address) for address in self.bind if not is_any(address))
        return frozenset(names.union(LOOPBACK_NAMES))


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def is_any(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def host_name(address: str) -> str:
    """The address in the form of URLs."""
    return f"[{address}]" if ":" in address else address.lower()


def first_url(bind: Iterable[str], port: int, is_https: bool) -> str:
    """The URL to open in a browser."""
    address = next(iter(bind))
    host = "localhost" if is_any(address) else host_name(address)
    return f"{'https' if is_https else 'http'}://{host}:{port}/"
