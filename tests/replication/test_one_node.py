"""A client of one active-active server cannot tell it from redis-server, until there is a
conflict: generated commands get the same replies from both, also after a kill."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness import HoldfastServer, RedisServer
from tests.wire import generators
from tests.wire.differential import Client, Servers, Step
from tests.wire.generators import Form
from tests.wire.grammar import Argv
from tests.wire.test_differential import OURS, is_ours

pytestmark = [pytest.mark.source_only, pytest.mark.oracle, pytest.mark.timeout(300)]

# Entries of streams get no ids from clients, and databases are not exchanged.
DIFFERENT = frozenset({"xadd", "xsetid", "swapdb"})


class Pair(Servers):
    @contextmanager
    def clients(self, protocol: int, count: int) -> Iterator[list[Client]]:
        """Without the entries that have their ids from us."""
        with super().clients(protocol, count) as clients:
            for inspector in self.inspectors:
                inspector.command("DEL", "stream", "stream2")
            yield clients


def one_command(rng: random.Random) -> Argv:
    def is_wanted(form: Form) -> bool:
        return is_ours(form) and form.name not in DIFFERENT

    return generators.command(rng, is_wanted)


@pytest.mark.parametrize("seed", range(4))
def test_one_node_answers_as_redis_does(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    steps: list[Step] = [
        (0, [one_command(rng) for _ in range(rng.choice((1, 2, 5, 20)))]) for _ in range(60)
    ]
    with (
        RedisServer(tmp_path / "theirs", "--hz", "500") as theirs,
        HoldfastServer(
            tmp_path / "ours", *OURS, "--active-active", "--node-id", "1", "--maxmemory", "1"
        ) as ours,
    ):
        pair = Pair(ours, theirs)
        pair.run(2, steps)
        pair.crash_and_restart()
        pair.compare_data()
        pair.run(3, steps)
