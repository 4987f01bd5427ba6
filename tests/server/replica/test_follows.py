"""Holdfast follows each kind of server, and has the same data."""

import random

import pytest

from tests.harness import HoldfastServer, wait_until
from tests.harness.processes import ServerProcess
from tests.server.primary.following import is_up
from tests.server.primary.test_redis_follows import COMMANDS, Writer, compare

pytestmark = [pytest.mark.oracle, pytest.mark.source_only]


def test_any_writes(
    any_primary: ServerProcess, replica: HoldfastServer, rng: random.Random
) -> None:
    """Before the snapshot, while it is taken, and after it."""
    client = any_primary.client()
    writer = Writer(client, rng, type(any_primary), HoldfastServer)
    writer.run(COMMANDS)
    copy = replica.client()
    copy.command("SET", "of before", "goes")
    copy.command("REPLICAOF", "127.0.0.1", any_primary.port)
    writer.run(COMMANDS)
    wait_until(lambda: is_up(copy), "it follows")
    writer.run(COMMANDS)
    compare(client, copy, type(any_primary))
    assert "cannot be done here" not in replica.stderr
