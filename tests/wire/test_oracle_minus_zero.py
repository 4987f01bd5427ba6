"""Scores of -0 against redis-server, which forgets the sign in small sorted sets and keeps it in
large ones: those of many members, and those of a long one."""

from collections.abc import Iterator

import pytest

from tests.harness import HoldfastServer, Pair
from tests.wire.same import assert_same

MANY = "ZADD k " + " ".join(f"{number} m{number}" for number in range(1, 151))
LONG = f"ZADD k 1 {'x' * 65}"
FILLED = {
    "small": ["ZADD k 1 m1 2 m2"],
    "of many members": [MANY],
    "of a long member": [LONG],
    "once large": [MANY, "ZREMRANGEBYRANK k 5 -1"],
    "full": ["ZADD k " + " ".join(f"{number} m{number}" for number in range(1, 128))],
}
LOOKS = [
    "ZRANGE k 0 3 WITHSCORES",
    "ZREVRANGE k -3 -1 WITHSCORES",
    "ZRANGEBYSCORE k -0 0 WITHSCORES",
    "ZMSCORE k a b c d e m1 nobody",
    "ZSCORE k a",
    "ZUNION 1 k WEIGHTS -1 WITHSCORES",
    "EVAL \"return redis.call('ZSCORE', KEYS[1], 'a')\" 1 k",
]
CHANGES = {
    "added": ["ZADD k -0 a 0 b -0.0 c -0e5 d", "ZADD k -0 e"],
    "added and converted by it": ["ZADD k -0 a 0 b", f"ZADD k -0 {'y' * 65} -0 c"],
    "changed": ["ZADD k 1 a 2 b", "ZADD k -0 a", "ZADD k CH -0 b", "ZADD k XX CH 0 a", LONG],
    "incremented": [
        *("ZINCRBY k -0 a", "ZINCRBY k -0 a", "ZINCRBY k 0 a", "ZADD k INCR -0 b"),
        *("ZADD k 5 c", "ZINCRBY k -5 c", "ZINCRBY k -0 c", "ZADD k -5 d", "ZINCRBY k 5 d"),
    ],
    "compared": ["ZADD k -0 a 0 b", "ZADD k GT CH 0 a", "ZADD k LT CH -0 b", "ZADD k NX -0 a"],
    "changed back": ["ZADD k -0 a", "ZADD k 1 a", "ZADD k 0 a", "ZADD k 1 a", "ZADD k -0 a"],
    "removed": ["ZADD k -0 a -0 b 0 c", "ZREM k a", "ZPOPMIN k", "ZADD k -0 a"],
    "stored": [
        *("ZADD k -0 a 0 b -0 c", "ZUNIONSTORE k 1 k", "ZUNIONSTORE k 1 k WEIGHTS -1"),
        "ZRANGESTORE k k 0 -1",
    ],
    "stored in part": ["ZADD k -0 a 0 b -0 c", "ZRANGESTORE k k 0 5"],
    "copied": ["ZADD k -0 a 0 b", "COPY k other", "DEL k", "RENAME other k"],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastServer]:
    folder = tmp_path_factory.mktemp("server")
    with HoldfastServer(folder, "--enable-debug-command", "yes") as server:
        yield server


@pytest.mark.parametrize("size", FILLED)
@pytest.mark.parametrize("how", CHANGES)
def test_minus_zero(pair: Pair, size: str, how: str) -> None:
    assert_same(pair, [*FILLED[size], *CHANGES[how], *LOOKS])
    if size != "once large":  # see minus-zero in docs/compatibility.md
        for client in (pair.ours, pair.oracle):
            client.command("SAVE")
        assert_same(pair, ["DEBUG RELOAD", *LOOKS])


@pytest.mark.parametrize("size", FILLED)
def test_minus_zero_in_dumps(pair: Pair, size: str) -> None:
    """Of each server, restored by both."""
    assert_same(pair, [*FILLED[size], "ZADD k -0 a 0 b -0 c"])
    dumps = []
    for client in (pair.ours, pair.oracle):
        header, _, payload = client.command("DUMP", "k").partition(b"\r\n")
        dumps.append(payload[: int(header[1:])])
    for dump in dumps:
        assert_same(pair, [("RESTORE", "k", 0, dump, "REPLACE"), *LOOKS])


def test_a_store_of_many(pair: Pair) -> None:
    zeros = [word for number in range(140) for word in ("-0", f"zero{number:03}")]
    all_of_it = "ZRANGE {} 0 -1 WITHSCORES"
    assert_same(
        pair,
        [
            MANY,
            ("ZADD", "k", *zeros),
            all_of_it.format("k"),
            "ZRANGESTORE range k 0 -1",
            all_of_it.format("range"),
            "ZRANGESTORE range k -0 0 BYSCORE",
            all_of_it.format("range"),
            "ZRANGESTORE range k 0 0 BYSCORE REV LIMIT 0 130",
            all_of_it.format("range"),
            "ZRANGESTORE range k 0 127",
            all_of_it.format("range"),
            "ZUNIONSTORE union 1 k",
            all_of_it.format("union"),
            "ZINTERSTORE union 2 k range",
            all_of_it.format("union"),
            "ZDIFFSTORE union 2 k missing",
            all_of_it.format("union"),
        ],
    )
