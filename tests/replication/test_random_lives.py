"""Random commands on three nodes that pull from each other at random, restart and fold: clients see
the content of the replicated values at every moment, and all nodes are equal when all records have
arrived."""

import os
import random
import re
from pathlib import Path

import pytest

from holdfast.store.replicated.record_log import LIMIT_BYTES
from tests.harness.rawclient import Argument
from tests.replication.nodes import Node, sync

TIMES_LONGER = int(os.environ.get("HOLDFAST_LIVES", "1"))
KEYS = ("a", "b", "c")
ENTRY_ID = re.compile(rb"\r\n(\d+-\d+)\r\n")
VALUES = ("x", "y", "z", "1", "2.5")


def command(rng: random.Random, node: Node | None = None, family: str = "") -> list[Argument]:
    """Mostly of those that begin with that letter, if it is one: a life that is all about streams
    comes to states that are rare among commands of all types."""
    key, other = rng.choice(KEYS[:1] if family else KEYS), rng.choice(KEYS)
    entries = b"" if node is None else node("XRANGE", key, "-", "+")
    entry = rng.choice(ENTRY_ID.findall(entries) or [b"1-1"])
    consumer = rng.choice(("c", "d"))
    value, more = rng.choice(VALUES), rng.choice(VALUES)
    number = rng.randrange(-3, 4)
    commands: list[list[Argument]] = [
        ["SET", key, value],
        ["SET", key, value, "KEEPTTL"],
        ["APPEND", key, value],
        ["GETDEL", key],
        ["INCRBY", key, number],
        ["INCRBYFLOAT", key, "0.1"],
        ["SETRANGE", key, 2, value],
        ["DEL", key],
        ["DEL", key, other],
        ["RENAME", key, other],
        ["COPY", key, other, "REPLACE"],
        ["MOVE", key, 1],
        ["EXPIRE", key, rng.choice((5, 10, 100))],
        ["PERSIST", key],
        ["RPUSH", key, value, more],
        ["RPUSH", key, value],
        ["LPUSH", key, value],
        ["LPOP", key],
        ["RPOP", key, 2],
        ["LINSERT", key, rng.choice(("BEFORE", "AFTER")), value, more],
        ["LSET", key, number, value],
        ["LREM", key, number, value],
        ["LTRIM", key, rng.randrange(2), rng.randrange(2, 6)],
        ["LMOVE", key, other, "LEFT", "RIGHT"],
        ["SADD", key, value, more],
        ["SREM", key, value],
        ["SPOP", key],
        ["SMOVE", key, other, value],
        ["SUNIONSTORE", key, key, other],
        ["HSET", key, value, more],
        ["HDEL", key, value],
        ["HPEXPIRE", key, rng.choice((1500, 10_000)), "FIELDS", 1, value],
        ["HPERSIST", key, "FIELDS", 1, value],
        ["HINCRBY", key, "n", number],
        ["HINCRBYFLOAT", key, "n", "0.3"],
        ["ZADD", key, number, value, 1, more],
        ["ZINCRBY", key, "1.1", value],
        ["ZREM", key, value],
        ["ZPOPMIN", key],
        ["ZRANGESTORE", key, other, 0, 1],
        ["PFADD", key, value, more],
        ["PFMERGE", key, other],
        ["PFCOUNT", key],
        ["XADD", key, "*", value, more],
        ["XADD", key, "MAXLEN", 3, "*", value, more],
        ["XTRIM", key, "MAXLEN", 1],
        ["XGROUP", "CREATE", key, "g", rng.choice(("0", "$")), "MKSTREAM"],
        ["XGROUP", "DESTROY", key, "g"],
        ["XGROUP", "DELCONSUMER", key, "g", consumer],
        ["XGROUP", "CREATECONSUMER", key, "g", consumer],
        ["XGROUP", "SETID", key, "g", rng.choice(("0", "$"))],
        ["XREADGROUP", "GROUP", "g", consumer, "COUNT", 2, "STREAMS", key, ">"],
        ["XREADGROUP", "GROUP", "g", consumer, "NOACK", "STREAMS", key, ">"],
        ["XREADGROUP", "GROUP", "g", consumer, "CLAIM", 0, "COUNT", 2, "STREAMS", key, ">"],
        ["XNACK", key, "g", "FAIL", "IDS", 1, entry, "FORCE"],
        ["XDELEX", key, rng.choice(("DELREF", "ACKED")), "IDS", 1, entry],
        ["XACKDEL", key, "g", "DELREF", "IDS", 1, entry],
        ["XTRIM", key, "MAXLEN", 1, "ACKED"],
        ["XACK", key, "g", entry],
        ["XCLAIM", key, "g", consumer, 0, entry],
        ["XDEL", key, entry],
        ["XAUTOCLAIM", key, "g", "d", 0, "0"],
        ["FLUSHDB"] if rng.random() < 0.2 else ["TYPE", key],
        ["FLUSHALL"] if rng.random() < 0.2 else ["TYPE", key],
    ]
    if family and rng.random() < 0.9:
        commands = [words for words in commands if str(words[0]).startswith(family)]
    return rng.choice(commands)


@pytest.mark.parametrize("seed", range(12 * TIMES_LONGER))
def test_all_see_the_same_in_the_end(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    family = rng.choice(("", "", "L", "H", "S", "Z", "X", "X"))
    nodes = [
        # Of some, all but the smallest records are in pieces, on the way and in the file.
        Node(number, tmp_path / f"{number}.db", rng.choice((50, 128_000)), rng.choice((30, 10**6)))
        for number in (1, 2, 3)
    ]
    for _ in range(rng.randrange(40, 160)):
        node = rng.choice(nodes)
        chance = rng.random()
        if chance < 0.7:
            node(*command(rng, node, family))
        elif chance < 0.75:
            node.client.transaction(*[command(rng, node, family) for _ in range(3)])
        elif chance < 0.9:
            other = rng.choice([each for each in nodes if each is not node])
            node.pull(other, keep=rng.random() < 0.7)
            node.check_file()
        elif chance < 0.93:
            # With a small log, a node that was not heard of for a while needs a snapshot.
            node.tidy(rng.choice((LIMIT_BYTES, 1000)))
        elif chance < 0.95:
            node.restart(fold=rng.random() < 0.5)
            node.check_file()
        else:
            for each in nodes:
                each.clock.advance(rng.choice((0.001, 1, 6)))
        node.check()
    for _ in range(3):
        sync(*nodes)
        for node in nodes:
            node.tidy()
            node.check()
    for node in nodes:
        node.check_file()
        replica_keys = node.stage.replica_keys
        left = [replica_keys.at(address) for address in replica_keys.addresses]
        assert not [
            replica_key.address
            for replica_key in left
            if replica_key.type is None or replica_key.has_residue
        ]
    joiner = Node(4)
    sync(*nodes, joiner)
    for node in (*nodes, joiner):
        node.close()
