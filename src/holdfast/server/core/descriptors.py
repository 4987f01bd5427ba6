"""File descriptors: every client needs one, and so do the files. Some are kept for the files."""

import logging
import resource

from holdfast.errors import ConfigError

log = logging.getLogger(__name__)

# For the database, its journal and lock, a backup or a file that is written anew, the loop, the
# listening sockets, links to other servers, and clients that are just being refused.
RESERVED = 64


def clients_allowed(wanted: int) -> int:
    """How many clients the system allows, at most `wanted`. Raises the soft limit of the system as
    far as needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed - RESERVED


def limit_clients(maxclients: int) -> int:
    """The value of `maxclients` with which a server can start. Raises ConfigError if it could have
    no client."""
    allowed = clients_allowed(maxclients)
    if allowed < 1:
        raise ConfigError(
            f"{allowed + RESERVED} open files are allowed (ulimit -n), but a server with one client"
            f" needs {RESERVED + 1}"
        )
    if allowed < maxclients:
        log.warning(
            "maxclients is %d instead of %d: %d open files are allowed (ulimit -n), and %d of them"
            " are kept for files",
            *(allowed, maxclients, allowed + RESERVED, RESERVED),
        )
    return allowed


def check_clients(maxclients: int) -> None:
    """Check a value of CONFIG SET. Raises ConfigError with Redis's text."""
    allowed = clients_allowed(maxclients)
    if allowed < maxclients:
        raise ConfigError(
            "The operating system is not able to handle the specified number of clients, try with"
            f" {allowed}"
        )
