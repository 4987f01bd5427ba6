"""The table in docs/guide-testing.md: a case is a row, and its docstring is the first cell.

Each case is written with redis-py, as its users write tests. It passes on Redis. A case that waits
for something that never comes fails after a second or two.
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from redis.exceptions import NoPermissionError

Connect = Callable[..., Any]
WAIT_S = 2.0
# fakeredis does not show that a client waits. If this is too short, a case passes that should not.
BEGINS_TO_WAIT_S = 0.1


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Begin `work`, which waits, in a thread. The returned function returns its result."""
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(work())
        except redis.RedisError as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(BEGINS_TO_WAIT_S)

    def wait() -> Any:
        thread.join(2 * WAIT_S)
        assert results, "it still waits"
        return results[0]

    return wait


def until(is_true: Callable[[], Any]) -> None:
    give_up = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < give_up, "not in time"
        time.sleep(0.005)


# -- keys and types ---------------------------------------------------------------------------


def test_types(connect: Connect) -> None:
    """strings, lists, hashes, sets, sorted sets"""
    r = connect()
    r.set("s", "v", px=60_000)
    r.rpush("l", "a", "b")
    r.hset("h", mapping={"f": "1"})
    r.zadd("z", {"a": 1, "b": 2})
    assert (r.get("s"), r.lrange("l", 0, -1), r.hgetall("h")) == ("v", ["a", "b"], {"f": "1"})
    assert r.zrange("z", 0, -1) == ["a", "b"]
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        r.incr("l")


def test_geo_bits_hyperloglog(connect: Connect) -> None:
    """`GEOSEARCH`, `BITFIELD`, `PFCOUNT`"""
    r = connect()
    r.geoadd("g", [13.361389, 38.115556, "Palermo"])
    assert r.geosearch("g", longitude=15, latitude=37, radius=200, unit="km") == ["Palermo"]
    assert r.bitfield("b").set("u8", 0, 200).get("u4", 0).execute() == [0, 12]
    r.pfadd("p", *range(100))
    assert 95 <= r.pfcount("p") <= 105


def test_expiry(connect: Connect) -> None:
    """a key expires"""
    r = connect()
    r.set("k", "v", px=5)
    until(lambda: not r.exists("k"))
    assert r.dbsize() == 0


def test_clock(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """a test moves the clock (`freezegun` and the like)"""
    r = connect()
    r.set("k", "v", ex=60)
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert r.get("k") is None


def test_field_expiry(connect: Connect) -> None:
    """fields of hashes expire (`HPEXPIRE`)"""
    r = connect()
    r.hset("h", mapping={"a": "1", "b": "2"})
    assert r.hpexpire("h", 5, "a") == [1]
    until(lambda: r.hgetall("h") == {"b": "2"})


def test_dump(connect: Connect) -> None:
    """`DUMP` and `RESTORE`, in the format of Redis"""
    r = connect(decode_responses=False)
    r.set("k", "v")
    dumped = r.dump("k")
    assert dumped[:3] == b"\x00\x01v"
    r.restore("copy", 0, dumped)
    assert r.get("copy") == b"v"


def test_encoding(connect: Connect) -> None:
    """`OBJECT ENCODING`"""
    r = connect()
    r.hset("h", mapping={"f": "1"})
    assert r.object("ENCODING", "h") == "listpack"


# -- blocking ---------------------------------------------------------------------------------


def test_blpop_thread(connect: Connect) -> None:
    """`BLPOP` waits in another thread"""
    r = connect()
    result = in_thread(lambda: r.blpop("q", WAIT_S))
    r.rpush("q", "job")
    assert list(result()) == ["q", "job"]


def test_blpop_process(connect: Connect, url: str) -> None:
    """`BLPOP` waits in another process"""
    code = "import redis, sys; r = redis.Redis.from_url(sys.argv[1]); print(r.blpop('q', 20)[1])"
    worker = subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)
    connect().rpush("q", "job")
    assert worker.communicate()[0] == "b'job'\n"


def test_blmove(connect: Connect) -> None:
    """`BLMOVE` waits in another thread"""
    r = connect()
    result = in_thread(lambda: r.blmove("q", "working", WAIT_S))
    r.rpush("q", "job")
    assert result() == "job"


def test_unblock(connect: Connect) -> None:
    """`CLIENT UNBLOCK`"""
    r, waiter = connect(), connect(single_connection_client=True)
    number = waiter.client_id()
    result = in_thread(lambda: waiter.blpop("q", WAIT_S))
    until(lambda: r.client_unblock(number))
    assert result() is None


# -- transactions -----------------------------------------------------------------------------


def test_watch(connect: Connect) -> None:
    """`WATCH` sees the change of another connection"""
    ours, other = connect(), connect()
    with ours.pipeline() as pipeline:
        pipeline.watch("k")
        other.set("k", "other")
        pipeline.multi()
        pipeline.set("k", "ours")
        with pytest.raises(redis.WatchError):
            pipeline.execute()
    assert other.get("k") == "other"


def test_watch_race(connect: Connect) -> None:
    """many threads race with `WATCH` and `MULTI`, and no update is lost"""
    r = connect()

    def add(pipeline: Any) -> None:
        value = int(pipeline.get("n") or 0)
        pipeline.multi()
        pipeline.set("n", value + 1)

    for result in [in_thread(lambda: [r.transaction(add, "n") for _ in range(10)]) for _ in "1234"]:
        assert not isinstance(result(), Exception)
    assert r.get("n") == "40"


def test_failed_exec(connect: Connect) -> None:
    """an error in `EXEC` does not stop the other commands"""
    r = connect()
    pipeline = r.pipeline().set("k", "v").incr("k").set("other", "v")
    result = pipeline.execute(raise_on_error=False)
    assert isinstance(result[1], redis.ResponseError)
    assert r.get("other") == "v"


# -- scripts ----------------------------------------------------------------------------------


def test_lua(connect: Connect) -> None:
    """Lua scripts: `EVAL`, `EVALSHA`, `cjson`"""
    r = connect()
    script = "local t = cjson.decode(ARGV[1]); return redis.call('HSET', KEYS[1], 'f', t.a[2])"
    assert r.eval(script, 1, "h", '{"a": [1, 2]}') == 1
    assert r.evalsha(r.script_load("return redis.call('HGET', KEYS[1], 'f')"), 1, "h") == "2"


def test_cmsgpack(connect: Connect) -> None:
    """`cmsgpack` in Lua scripts"""
    assert connect().eval("return cmsgpack.unpack(cmsgpack.pack({7}))[1]", 0) == 7


def test_error_reply(connect: Connect) -> None:
    """errors of Lua scripts: `redis.error_reply`, `redis.pcall`"""
    r = connect()
    with pytest.raises(redis.ResponseError, match="MINE is wrong"):
        r.eval("return redis.error_reply('MINE is wrong')", 0)
    r.set("k", "v")
    assert "integer" in r.eval("return redis.pcall('INCR', 'k').err", 0)


def test_functions(connect: Connect) -> None:
    """functions: `FUNCTION LOAD`, `FCALL`"""
    r = connect()
    code = "redis.register_function('f', function(keys, args) return args[1] end)"
    assert r.function_load(f"#!lua name=lib\n{code}") == "lib"
    assert r.fcall("f", 0, "x") == "x"


# -- streams, messages ------------------------------------------------------------------------


def test_groups(connect: Connect) -> None:
    """streams with groups: `XREADGROUP`, `XPENDING`, `XAUTOCLAIM`"""
    r = connect()
    r.xgroup_create("s", "g", id="0", mkstream=True)
    first, second = r.xadd("s", {"n": "1"}), r.xadd("s", {"n": "2"})
    r.xreadgroup("g", "ann", {"s": ">"}, count=2)
    r.xack("s", "g", first)
    assert r.xpending("s", "g")["pending"] == 1
    assert r.xautoclaim("s", "g", "bob", min_idle_time=0)[1] == [(second, {"n": "2"})]
    assert [each["name"] for each in r.xinfo_consumers("s", "g")] == ["ann", "bob"]


def test_group_waits(connect: Connect) -> None:
    """`XREADGROUP BLOCK` waits in another thread"""
    r = connect()
    r.xgroup_create("s", "g", id="0", mkstream=True)
    result = in_thread(lambda: r.xreadgroup("g", "ann", {"s": ">"}, block=int(WAIT_S * 1000)))
    r.xadd("s", {"n": "1"})
    assert "'n': '1'" in str(result())


def test_pubsub(connect: Connect) -> None:
    """pub/sub between connections"""
    with connect().pubsub() as pubsub:
        pubsub.psubscribe("news.*")
        until(lambda: pubsub.get_message(timeout=0.1))
        assert connect().publish("news.today", "hello") == 1
        message = pubsub.get_message(timeout=WAIT_S)
    assert message["data"] == "hello"


def test_sharded_pubsub(connect: Connect) -> None:
    """`SSUBSCRIBE`, `SPUBLISH`"""
    with connect().pubsub() as pubsub:
        pubsub.ssubscribe("news")
        until(lambda: pubsub.get_sharded_message(timeout=0.1))
        assert connect().spublish("news", "hello") == 1
        message = pubsub.get_sharded_message(timeout=WAIT_S)
    assert message["data"] == "hello"


def test_notifications(connect: Connect) -> None:
    """keyspace notifications"""
    r = connect()
    r.config_set("notify-keyspace-events", "KEA")
    with r.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.psubscribe("__keyevent@0__:*")
        pubsub.get_message(timeout=0.1)
        r.set("k", "v", px=5)
        seen: list[str] = []

        def has_expired() -> bool:
            message = pubsub.get_message(timeout=0.1)
            seen.append(message["channel"].rpartition(":")[2] if message else "")
            return "expired" in seen

        until(has_expired)
    assert "set" in seen


def test_tracking(connect: Connect) -> None:
    """client-side caching: `CLIENT TRACKING` and its pushed invalidations (RESP3)"""
    other, pool = connect(), connect(protocol=3, decode_responses=False).connection_pool
    ours = pool.get_connection()
    pushed: list[Any] = []
    ours._parser.set_invalidation_push_handler(pushed.append)
    for command in (("CLIENT", "TRACKING", "ON"), ("GET", "k")):
        ours.send_command(*command)
        ours.read_response()
    other.set("k", "new")
    ours.send_command("PING")
    ours.read_response()
    pool.release(ours)
    assert pushed == [[b"invalidate", [b"k"]]]


def test_cache(connect: Connect) -> None:
    """the cache of redis-py, which asks for Redis 7.4 (`cache_config`)"""
    from redis.cache import CacheConfig

    cached, other = connect(protocol=3, cache_config=CacheConfig()), connect()
    other.set("k", "old")
    assert cached.get("k") == "old"
    assert cached.get_cache().size == 1
    other.set("k", "new")
    until(lambda: cached.get("k") == "new")


# -- the server -------------------------------------------------------------------------------


def test_clients(connect: Connect) -> None:
    """`CLIENT SETNAME`, `LIST`, `KILL`"""
    r, victim = connect(), connect(single_connection_client=True)
    victim.client_setname("victim")
    (found,) = (client for client in r.client_list() if client["name"] == "victim")
    assert r.client_kill_filter(_id=found["id"]) == 1
    until(lambda: "victim" not in [client["name"] for client in r.client_list()])


def test_acl(connect: Connect) -> None:
    """users and their rights: `ACL SETUSER`, `NOPERM`"""
    r = connect()
    r.acl_setuser("ann", enabled=True, passwords=["+secret"], keys=["ann:*"], commands=["+get"])
    ann = connect(username="ann", password="secret")
    assert ann.get("ann:k") is None
    with pytest.raises(NoPermissionError):
        ann.set("ann:k", "v")
    with pytest.raises(NoPermissionError):
        ann.get("bob:k")


def test_password(connect: Connect) -> None:
    """a wrong password is refused"""
    connect().acl_setuser("ann", enabled=True, passwords=["+secret"])
    with pytest.raises(redis.AuthenticationError):
        connect(username="ann", password="wrong").ping()


def test_out_of_memory(connect: Connect) -> None:
    """writes fail at `maxmemory`"""
    r = connect()
    r.config_set("maxmemory", 1)
    with pytest.raises(redis.OutOfMemoryError):
        r.set("k", "v")


def test_config(connect: Connect) -> None:
    """`CONFIG GET` shows all parameters"""
    config = connect().config_get("*")
    assert {"maxmemory", "appendfsync", "timeout", "databases"} <= config.keys()


def test_info(connect: Connect) -> None:
    """`INFO` counts commands"""
    r = connect()
    r.set("k", "v")
    assert r.info("commandstats")["cmdstat_set"]["calls"] == 1


def test_slowlog(connect: Connect) -> None:
    """`SLOWLOG`"""
    r = connect()
    r.config_set("slowlog-log-slower-than", 0)
    r.set("k", "v")
    assert any(b"SET k v" in entry["command"] for entry in r.slowlog_get())


def test_monitor(connect: Connect) -> None:
    """`MONITOR`"""
    r = connect()
    r.ping()
    with connect().monitor() as monitor:
        result = in_thread(monitor.next_command)
        r.set("k", "v")
        assert result()["command"] == "SET k v"


def test_socket(url: str) -> None:
    """other clients and other languages reach it"""
    address = urlsplit(url)
    with socket.create_connection((address.hostname or "", address.port or 0), WAIT_S) as raw:
        raw.sendall(b"*1\r\n$4\r\nPING\r\n")
        assert raw.recv(64) == b"+PONG\r\n"


@pytest.mark.holdfast(db="test.db")
def test_persistence(connect: Connect, restart: Callable[[], None]) -> None:
    """data survive a crash of the server"""
    r = connect()
    r.set("k", "v")
    restart()
    assert connect().get("k") == "v"


# -- modules ----------------------------------------------------------------------------------


def test_json(connect: Connect) -> None:
    """JSON (a module of Redis)"""
    r = connect()
    r.json().set("doc", "$", {"a": [1, 2]})
    assert r.json().get("doc", "$.a[1]") == [2]


def test_bloom(connect: Connect) -> None:
    """Bloom filters (a module of Redis)"""
    r = connect()
    r.bf().add("filter", "a")
    assert r.bf().exists("filter", "a") == 1


# -- last, because a script that cannot be ended goes on behind the other cases -----------------


def test_endless_script(connect: Connect) -> None:
    """a script that runs for ever can be ended (`SCRIPT KILL`)"""
    r, other = connect(socket_timeout=WAIT_S * 3), connect(socket_timeout=WAIT_S * 3)
    other.ping()
    r.config_set("busy-reply-threshold", 10)
    result = in_thread(lambda: r.eval("while true do end", 0))

    def is_killed() -> bool:
        try:
            return bool(other.script_kill())
        except redis.ResponseError:
            return False

    until(is_killed)
    assert isinstance(result(), redis.ResponseError)
