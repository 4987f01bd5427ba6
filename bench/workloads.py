"""The workloads of `make bench`: the commands, the data they need, and the checks of their effects.

compare.py measures them.
"""

import hashlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from bench import common
from bench.common import Sample, ask, ask_int, cpu_s, fail, run_benchmark, send_all
from bench.load import Listeners, run_load
from tests.harness import RawClient, encode_command
from tests.harness.processes import ServerProcess

CLIENTS = 50
KEYS = 100_000
VALUE = "0123456789abcdef" * 2
RANGE_LENGTH = 1000
SUBSCRIBERS = 100
MANY = (1 << 31) - 1  # of random numbers: hardly any comes twice

Step = Callable[[RawClient], object]


def nothing(client: RawClient, requests: int) -> None:
    """No preparation."""


@dataclass(frozen=True)
class Workload:
    """One command to measure. `fill` runs once, `prepare` before each measurement, with the number
    of requests. `grows` returns a number that every request raises by one; it proves that requests
    had an effect, because redis-benchmark accepts any reply. `check` runs at the very end and
    returns a description of wrong data, or None."""

    name: str
    argv: tuple[str, ...]
    fill: Step | None = None
    prepare: Callable[[RawClient, int], None] = nothing
    grows: Callable[[RawClient], int] | None = None
    check: Callable[[RawClient], str | None] | None = None
    keys: int = KEYS  # the number of values of __rand_int__
    database: int = 0
    tolerance: float = 0  # the share of requests without an effect: a random member may come twice

    def run(self, server: ServerProcess, pipeline: int, requests: int) -> Sample:
        return run_benchmark(
            server,
            self.argv,
            requests=requests,
            clients=CLIENTS,
            pipeline=pipeline,
            keys=self.keys,
            database=self.database,
        )

    def measure(
        self, side: str, server: ServerProcess, client: RawClient, pipeline: int, requests: int
    ) -> Sample:
        self.prepare(client, requests)
        before = self.grows(client) if self.grows else 0
        sample = self.run(server, pipeline, requests)
        if self.grows:
            done = self.grows(client) - before
            if not requests * (1 - self.tolerance) <= done <= requests:
                fail(f"{side}: {self.name} was answered {requests} times, but done {done} times")
        return sample


class FromNothing(Workload):
    """Begins with an empty database, which other workloads do not use, and an idle server. A run
    pays for all of its own folding, and for nothing else: CPU time is counted until the server is
    idle again. (redis-server frees a set inside of DEL. Our fold removes it later, which would
    count for the next run.)"""

    def measure(
        self, side: str, server: ServerProcess, client: RawClient, pipeline: int, requests: int
    ) -> Sample:
        ask(client, "SELECT", self.database)
        ask(client, "FLUSHDB")
        common.wait_until_idle(server.pid)
        sample = super().measure(side, server, client, pipeline, requests)
        ask(client, "SELECT", 0)  # others use the same client
        return sample

    def run(self, server: ServerProcess, pipeline: int, requests: int) -> Sample:
        before_s = cpu_s(server.pid)
        sample = super().run(server, pipeline, requests)
        used_s = common.wait_until_idle(server.pid) - before_s
        return replace(sample, cpu_us_per_op=1e6 * used_s / requests)


class Publishing(Workload):
    """redis-benchmark publishes; every listener must receive every message."""

    def run(self, server: ServerProcess, pipeline: int, requests: int) -> Sample:
        channel, message = self.argv[1:]
        nbytes = len(encode_command("message", channel, message))
        with Listeners(server.port, SUBSCRIBERS, channel) as listeners:
            sample = super().run(server, pipeline, requests)
            listeners.wait_for(requests * nbytes)
        return sample


class Transactions(Workload):
    """MULTI, five commands and EXEC in one write, which redis-benchmark cannot send."""

    def run(self, server: ServerProcess, pipeline: int, requests: int) -> Sample:
        rng = random.Random(1)
        reply = b"+OK\r\n" + 5 * b"+QUEUED\r\n" + b"*5\r\n" + 5 * b"+OK\r\n"
        return run_load(
            server,
            [self._transaction(rng) for _ in range(1000)],
            reply,
            requests=requests,
            clients=CLIENTS,
            pipeline=pipeline,
        )

    def _transaction(self, rng: random.Random) -> bytes:
        sets = (encode_command("SET", f"key:{rng.randrange(KEYS):012d}", VALUE) for _ in range(5))
        return b"".join((encode_command("MULTI"), *sets, encode_command("EXEC")))


# -- data and checks -----------------------------------------------------------------------------


def numbered(kind: str) -> Iterable[str]:
    return (f"{kind}:{number:012d}" for number in range(KEYS))


def fill_keys(client: RawClient) -> None:
    send_all(client, (("SET", name, VALUE) for name in numbered("key")))


def check_keys(client: RawClient) -> str | None:
    hundred = encode_command(*([VALUE] * 100))
    for first in range(0, KEYS, 100):
        names = [f"key:{i:012d}" for i in range(first, first + 100)]
        if ask(client, "MGET", *names) != hundred:
            return f"one of {names[0]} to {names[-1]} has lost its value"
    return None


def fill_counters(client: RawClient) -> None:
    send_all(client, (("SET", name, 0) for name in numbered("counter")))


def counters(client: RawClient) -> int:
    total = 0
    for first in range(0, KEYS, 100):
        names = [f"counter:{i:012d}" for i in range(first, first + 100)]
        total += sum(map(int, ask(client, "MGET", *names).split(b"\r\n")[2::2]))
    return total


def key_count(client: RawClient) -> int:
    return ask_int(client, "DBSIZE")


def length(command: str, name: str) -> Callable[[RawClient], int]:
    return lambda client: ask_int(client, command, name)


def taken(command: str, name: str) -> Callable[[RawClient], int]:
    return lambda client: -ask_int(client, command, name)


def fill_queue(client: RawClient, requests: int) -> None:
    missing = max(0, requests - ask_int(client, "LLEN", "queue"))
    send_all(client, (("LPUSH", "queue", *([VALUE] * 100)) for _ in range(0, missing, 100)))


def fill_range(client: RawClient) -> None:
    send_all(client, (("LPUSH", "range", VALUE) for _ in range(RANGE_LENGTH)))


def check_range(client: RawClient) -> str | None:
    hundred = encode_command(*([VALUE] * 100))
    is_right = ask(client, "LRANGE", "range", 0, 99) == hundred
    return None if is_right else "LRANGE does not return the 100 elements"


def fill_hash(client: RawClient) -> None:
    send_all(client, (("HSET", "hash", name, VALUE) for name in numbered("field")))
    ask(client, "HSET", "record", *(word for at in range(10) for word in (f"field{at}", VALUE)))


def check_hash(client: RawClient) -> str | None:
    if ask_int(client, "HLEN", "hash") != KEYS:
        return "HSET has lost fields"
    is_right = ask(client, "HGETALL", "record").count(VALUE.encode()) == 10
    return None if is_right else "HGETALL does not return the ten fields"


def fill_zset(client: RawClient) -> None:
    names = enumerate(numbered("member"))
    send_all(client, (("ZADD", "zset", number, name) for number, name in names))


def check_zset(client: RawClient) -> str | None:
    is_right = ask(client, "ZCOUNT", "zset", "-inf", "+inf") == b":%d\r\n" % KEYS
    return None if is_right else "ZADD has lost members"


def fill_zset_queue(client: RawClient, requests: int) -> None:
    ask(client, "ZREMRANGEBYRANK", "zqueue", 0, -1)  # 50 may be left: their names come again
    for first in range(0, requests, 100):
        pairs = (word for at in range(first, first + 100) for word in (at, f"job:{at}"))
        ask(client, "ZADD", "zqueue", *pairs)


def new_stream(client: RawClient, requests: int) -> None:
    ask(client, "DEL", "stream")


def new_work(client: RawClient, requests: int) -> None:
    ask(client, "DEL", "work")
    ask(client, "XGROUP", "CREATE", "work", "workers", "$", "MKSTREAM")
    send_all(client, (("XADD", "work", "*", "job", VALUE) for _ in range(requests)))


def pending(client: RawClient) -> int:
    return int(ask(client, "XPENDING", "work", "workers").split(b"\r\n")[1][1:])


def allow_backlog(client: RawClient) -> None:
    """Set no limit for the output of slow listeners, so that none is disconnected."""
    ask(client, "CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0")


# Scripts that are run by their SHA1: none, one and ten calls.
CALL = "redis.call('INCR', KEYS[1])"
EMPTY, ONE_CALL, TEN_CALLS = "return 1", f"return {CALL}", f"for i = 1, 10 do {CALL} end return 1"


def load_scripts(client: RawClient) -> None:
    fill_counters(client)
    for script in (EMPTY, ONE_CALL, TEN_CALLS):
        ask(client, "SCRIPT", "LOAD", script)


def evalsha(script: str) -> tuple[str, ...]:
    return ("EVALSHA", hashlib.sha1(script.encode()).hexdigest(), "1", "counter:__rand_int__")


# -- all workloads -------------------------------------------------------------------------------

MSET = ("MSET", *(("key:__rand_int__", VALUE) * 10))
BY_SCORE = ("ZRANGEBYSCORE", "zset", "__rand_int__", "+inf", "LIMIT", "0", "10")
TAKE_WORK = ("XREADGROUP", "GROUP", "workers", "me", "COUNT", "1", "STREAMS", "work", ">")

# Commands that make a key of each type.
NEW_KEYS = (
    ("SET", "key:__rand_int__", VALUE),
    ("INCR", "counter:__rand_int__"),
    ("HSET", "hash:__rand_int__", "field", VALUE),
    ("SADD", "set:__rand_int__", "member"),
    ("LPUSH", "list:__rand_int__", VALUE),
    ("ZADD", "zset:__rand_int__", "1", "member"),
    ("XADD", "stream:__rand_int__", "*", "field", VALUE),
)

WORKLOADS: tuple[Workload, ...] = (
    Workload("SET", ("SET", "key:__rand_int__", VALUE), fill_keys, check=check_keys),
    Workload("GET", ("GET", "key:__rand_int__"), fill_keys, check=check_keys),
    Workload("INCR", ("INCR", "counter:__rand_int__"), fill_counters, grows=counters),
    Workload("LPUSH", ("LPUSH", "queue", VALUE), grows=length("LLEN", "queue")),
    Workload("LPOP", ("LPOP", "queue"), prepare=fill_queue, grows=taken("LLEN", "queue")),
    Workload("LRANGE_100", ("LRANGE", "range", "0", "99"), fill_range, check=check_range),
    Workload("MSET", MSET, fill_keys, check=check_keys),
    Workload("HSET", ("HSET", "hash", "field:__rand_int__", VALUE), fill_hash, check=check_hash),
    Workload("HGETALL", ("HGETALL", "record"), fill_hash, check=check_hash),
    FromNothing(
        "SADD",
        ("SADD", "set", "member:__rand_int__"),
        grows=length("SCARD", "set"),
        keys=MANY,
        database=1,
        tolerance=0.001,
    ),
    Workload(
        "ZADD",
        ("ZADD", "zset", "__rand_int__", "member:__rand_int__"),
        fill_zset,
        check=check_zset,
    ),
    Workload("ZRANGEBYSCORE", BY_SCORE, fill_zset, check=check_zset),
    Workload(
        "ZPOPMIN", ("ZPOPMIN", "zqueue"), prepare=fill_zset_queue, grows=taken("ZCARD", "zqueue")
    ),
    Workload(
        "XADD",
        ("XADD", "stream", "*", "field", VALUE),
        prepare=new_stream,
        grows=length("XLEN", "stream"),
    ),
    Workload("XREADGROUP", TAKE_WORK, prepare=new_work, grows=pending),
    Publishing("PUBLISH_100", ("PUBLISH", "news", VALUE), allow_backlog),
    Transactions("MULTI_5", (), fill_keys, check=check_keys),
    Workload("EVALSHA_0", evalsha(EMPTY), load_scripts),
    Workload("EVALSHA_1", evalsha(ONE_CALL), load_scripts, grows=counters),
    Workload("EVALSHA_10", evalsha(TEN_CALLS), load_scripts),
    *(
        FromNothing(f"NEW_{argv[0]}", argv, grows=key_count, keys=MANY, database=1, tolerance=0.001)
        for argv in NEW_KEYS
    ),
)
