"""The kinds of servers that follow each other, and their options."""

from tests.harness import HoldfastServer, RedisServer
from tests.harness.processes import ServerProcess
from tests.harness.valkey import ValkeyServer

KINDS: list[type[ServerProcess]] = [RedisServer, ValkeyServer, HoldfastServer]
_PINGS = ("--repl-ping-replica-period", "1")
_AT_ONCE = ("--repl-diskless-sync-delay", "0", *_PINGS)
OPTIONS: dict[type[ServerProcess], tuple[str, ...]] = {
    RedisServer: _AT_ONCE,
    ValkeyServer: (*_AT_ONCE, "--enable-debug-command", "yes"),
    HoldfastServer: ("--enable-debug-command", "yes", *_PINGS),
}
