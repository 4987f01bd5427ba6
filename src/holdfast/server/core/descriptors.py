"""File descriptors: every client needs one, and so do the files. Some are kept for the files."""

import logging
import resource

from holdfast.errors import ConfigError

log = logging.getLogger(__name__)

# For the database, its journal and lock, a backup or a file that is written anew, the loop, the
# listening sockets, links to other servers, and clients that are just being refused.
RESERVED = 64


def clients_allowed(wanted: int) -> int:
    """How many clients the system allows, up to so many; raises its soft limit as far as needed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed - RESERVED


def limit_clients(maxclients: int) -> int:
    """`maxclients` as a server can begin with it. Raises ConfigError if it can have none."""
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
    """After CONFIG SET. Raises ConfigError, in Redis's words."""
    allowed = clients_allowed(maxclients)
    if allowed < maxclients:
        raise ConfigError(
            "The operating system is not able to handle the specified number of clients, try with"
            f" {allowed}"
        )
