"""Tools of the tests for real servers: processes, and a client that shows raw bytes."""

from tests.harness.pair import Pair, open_pair
from tests.harness.processes import HoldfastServer, RedisServer, free_port, wait_until
from tests.harness.rawclient import RawClient, encode_command

__all__ = [
    "HoldfastServer",
    "Pair",
    "RawClient",
    "RedisServer",
    "encode_command",
    "free_port",
    "open_pair",
    "wait_until",
]
