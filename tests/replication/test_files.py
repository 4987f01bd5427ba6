"""Replicated values and the file: the fold writes them to the tables, and killing a server in the
middle of a fold changes nothing."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.store.change.ops import CRDT_FACTS, CRDT_ROWS, Op, row_op
from holdfast.store.fold import fold, pending_rows
from holdfast.store.replicated.replica_keys import KINDS, LIST, PIECES, pack
from holdfast.store.store import FileStore
from tests.replication.nodes import Node, sync
from tests.replication.test_random_lives import TIMES_LONGER, command


def folding(node: Node) -> fold.Fold:
    assert isinstance(node.store, FileStore)
    return node.store.folding


Rows = dict[tuple[int, tuple[int, bytes]], Any]


def unordered(place: tuple[int, bytes], row: bytes) -> Any:
    """Of a cell the totals are in no order."""
    plain = msgspec.msgpack.decode(row)
    if place[0] >= PIECES and KINDS[place[0] - PIECES] not in (LIST, "hyperloglog"):
        plain[1].sort()
    return plain


def rows_in_tables(node: Node) -> Rows:
    """By key id and place; all of them, also of keys that are not there any more."""
    assert isinstance(node.store, FileStore)
    found = node.store._connection.execute("SELECT key_id, kind, sub, row FROM crdt_rows")
    return {(key_id, (kind, sub)): unordered((kind, sub), row) for key_id, kind, sub, row in found}


def rows_in_memory(node: Node) -> Rows:
    rows: Rows = {}
    for address in node.stage.replica_keys.addresses:
        replica_key = node.stage.replica_keys.at(address)
        for kind, part in replica_key.parts:
            places = {kind: {part.piece_of(sub) for sub, _ in part.rows()}}
            rows |= {
                (key_id, place): unordered(place, row)
                for _, key_id, place, row in replica_key.ops(places)
                if row is not None
            }
    return rows


@pytest.mark.parametrize("seed", range(8 * TIMES_LONGER))
def test_a_kill_in_the_middle_of_a_fold_changes_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "SLICE_ROWS", 3)
    monkeypatch.setattr(fold, "COLLECTED_ROWS", 2)
    monkeypatch.setattr(pending_rows, "SORTED_ROWS", 5)
    rng = random.Random(seed)
    node, other = Node(1, tmp_path / "1.db"), Node(2)
    for _ in range(120):
        chance = rng.random()
        if chance < 0.45:
            node.client.pipeline(*(command(rng) for _ in range(rng.choice((1, 3, 10)))))
            node.client.replies()
        elif chance < 0.6:
            other(*command(rng))
        elif chance < 0.7:
            node.pull(other)
            other.pull(node)
        elif chance < 0.75:
            node.tidy()
        elif chance < 0.95:
            for _ in range(rng.randrange(12)):
                folding(node).step()
        else:
            digest = node.digest()
            node.restart()
            assert node.digest() == digest
            node.check()
    sync(node, other)
    digest = node.digest()
    node.restart(fold=True)
    assert node.digest() == digest
    assert rows_in_tables(node) == rows_in_memory(node)
    node.close()


def old_rows(node: Node) -> list[Op]:
    """As the first version wrote them: a row for each write and each element."""
    ops: list[Op] = [
        row_op(CRDT_ROWS, key_id, place, None) for key_id, place in rows_in_memory(node)
    ]
    for address in node.stage.replica_keys.addresses:
        replica_key = node.stage.replica_keys.at(address)
        for kind, sub, row in replica_key.rows():
            place = (KINDS.index(kind), sub if kind == LIST else pack(sub))
            ops.append(row_op(CRDT_ROWS, replica_key.id, place, pack(row)))
    return ops


@pytest.mark.parametrize("is_folded", [True, False])
def test_a_file_of_the_first_version_gets_new_rows(tmp_path: Path, is_folded: bool) -> None:
    rng = random.Random(3)
    node, other = Node(1, tmp_path / "1.db"), Node(2)
    for _ in range(100):
        other(*command(rng))
    for number in range(100):
        node("RPUSH", "list", number)
    node("LSET", "list", 50, "x")
    node("INCR", "n")
    node.pull(other)
    digest = node.digest()
    node.stage.rows += old_rows(node)
    node.stage.rows.append(row_op(CRDT_FACTS, 0, b"rows", None))
    node.engine.turn.end()
    node.restart(fold=is_folded)
    assert is_folded == any(kind < PIECES for _, (kind, _) in rows_in_tables(node))
    assert node.stage.facts[b"rows"] == PIECES
    for _ in range(2):
        assert node.digest() == digest
        node.check()
        node("RPUSH", "list", "more")
        digest = node.digest()
        node.restart(fold=True)
    assert rows_in_tables(node) == rows_in_memory(node)
    assert all(kind >= PIECES for _, (kind, _) in rows_in_tables(node))
    node.close()
