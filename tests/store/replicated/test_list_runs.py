"""Changes at the ends of lists in busy turns are sent, journaled and folded as runs. With any runs,
clients of all servers see the same as one by one, also after a crash or a restart."""

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from holdfast.store.change.ops import LIST_ITEMS
from holdfast.store.change.runs import LIST_RUNS
from holdfast.store.check import check_file
from tests.harness.rawclient import Argument
from tests.replication.nodes import Node, sync

NAMES = ("a", "b", "c")


def command(rng: random.Random) -> list[Argument]:
    name, value = rng.choice(NAMES), rng.randrange(100)
    many = [rng.randrange(100) for _ in range(rng.choice((1, 1, 2, 9, 40)))]
    pushes: list[list[Argument]] = [[each, name, *many] for each in ["RPUSH"] * 6 + ["LPUSH"] * 3]
    pops: list[list[Argument]] = [[each, name] for each in ["LPOP"] * 5 + ["RPOP"] * 3]
    choices: list[list[Argument]] = [
        *pushes,
        *pops,
        ["LPOP", name, rng.choice((2, 10, 30))],
        ["RPOP", name, rng.choice((2, 10, 30))],
        ["LINSERT", name, "BEFORE", value, "x"],
        ["LSET", name, rng.randrange(-5, 5), "y"],
        ["LREM", name, 1, value],
        ["LTRIM", name, rng.randrange(3), -1 - rng.randrange(3)],
        ["LMOVE", name, rng.choice(NAMES), "LEFT", "RIGHT"],
    ]
    if rng.random() < 0.1:
        other = rng.choice(NAMES)
        choices = [["DEL", name], ["RENAME", name, other], ["COPY", name, other], ["SET", name, 1]]
    return rng.choice(choices)


def seen_by(node: Node) -> list[bytes]:
    return [node(*words) for name in NAMES for words in (("TYPE", name), ("LRANGE", name, 0, -1))]


@pytest.mark.parametrize("seed", range(12))
def test_lists_at_their_ends(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    nodes = [Node(number, tmp_path / f"{number}.db") for number in (1, 2)]
    for _ in range(25):
        writer, other = rng.sample(nodes, 2)
        turn = [command(rng) for _ in range(rng.choice((1, 5, 60)))]
        if rng.random() < 0.3:  # all at once, on one connection
            turn = [["MULTI"], *turn, ["EXEC"]]
        writer.clock.advance(1)
        writer.client.pipeline(*turn)
        writer.client.replies()
        if rng.random() < 0.3:  # at the same time
            other.client.pipeline(*[command(rng) for _ in range(5)])
            other.client.replies()
        sync(*nodes)
        seen = seen_by(writer)
        assert seen_by(other) == seen
        for node in nodes:
            node.check()
        if rng.random() < 0.3:
            node = rng.choice(nodes)
            node.restart(fold=rng.random() < 0.3)
            node.check()
            assert seen_by(node) == seen
        if rng.random() < 0.2:
            rng.choice(nodes).store.fold()
    for node in nodes:
        node.close()
        assert check_file(tmp_path / f"{node.number}.db") == []


def list_ops(path: Path) -> list[int]:
    """The operations on lists that the journal has: of which kind."""
    with closing(apsw.Connection(str(path))) as connection:
        rows: list[Any] = connection.execute("SELECT batch FROM journal").fetchall()
    tables = [op[0] for (batch,) in rows for op in msgspec.msgpack.decode(batch)]
    return [table for table in tables if table in (LIST_ITEMS, LIST_RUNS)]


def test_runs_are_few_operations_on_both_servers(tmp_path: Path) -> None:
    paths = [tmp_path / "1.db", tmp_path / "2.db"]
    nodes = [Node(number, path) for number, path in enumerate(paths, 1)]
    nodes[0]("RPUSH", "list", "first")
    sync(*nodes)
    for node in nodes:
        node.restart(fold=True)
    turns: list[list[list[Argument]]] = [[["RPUSH", "list", "x"]] * 100, [["LPOP", "list"]] * 50]
    for turn in turns:
        nodes[0].client.pipeline(*turn)
        nodes[0].client.replies()
        sync(*nodes)
    for node, path in zip(nodes, paths, strict=True):
        ops = list_ops(path)
        assert set(ops) == {LIST_RUNS}
        assert len(ops) <= 3  # where it follows, a chunk of memory at a time
        assert node("LLEN", "list") == b":51\r\n"
        node.close()
