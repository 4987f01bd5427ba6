"""Every typed method, once, on every kind of server: its result has the declared type."""

import asyncio
import typing
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import holdfast
from holdfast.client.api.client import Client
from holdfast.client.api.typed_commands import TypedCommands
from holdfast.client.api.typed_sync_commands import TypedSyncCommands

Play = Callable[..., None]
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def call(name: str, *args: Any, **options: Any) -> Call:
    return name, args, options


# In this order, on an empty server. A method that may answer in two ways is called for both.
CALLS: list[Call] = [
    call("set", "s", "v", ex_s=100),
    call("set", "s", "v", nx=True),
    call("set", "s", "v", px_ms=100_000, xx=True),
    call("set", "s", "v", exat_s=4_000_000_000),
    call("set", "s", "v", pxat_ms=4_000_000_000_000),
    call("set", "s", "v", keepttl=True),
    call("get", "s"),
    call("get", "none"),
    call("setnx", "s2", "v"),
    call("setex", "s2", 100, "v"),
    call("psetex", "s2", 100_000, "v"),
    call("getset", "s2", "w"),
    call("getset", "s3", "w"),
    call("getdel", "s3"),
    call("getex", "s", ex_s=100),
    call("getex", "s", px_ms=100_000),
    call("getex", "s", persist=True),
    call("mget", "s", "none"),
    call("mset", {"a": 1, "b": 2.5}),
    call("msetnx", {"a": 1, "c": 2}),
    call("append", "s", "more"),
    call("strlen", "s"),
    call("incr", "n"),
    call("incrby", "n", 5),
    call("incrbyfloat", "n", 0.5),
    call("set", "n", 7),
    call("decr", "n"),
    call("decrby", "n", 2),
    call("getrange", "s", 0, 1),
    call("setrange", "s", 1, "x"),
    call("setbit", "bits", 3, 1),
    call("getbit", "bits", 3),
    call("bitcount", "bits"),
    call("exists", "s", "none"),
    call("touch", "s"),
    call("type", "s"),
    call("keys", "*"),
    call("rename", "s2", "s4"),
    call("renamenx", "s4", "s"),
    call("copy", "s", "copied"),
    call("copy", "s", "copied", replace=True),
    call("randomkey"),
    call("expire", "s", 100),
    call("expire", "s", 200, gt=True),
    call("pexpire", "s", 100_000, lt=True),
    call("expireat", "s", 4_000_000_000),
    call("pexpireat", "s", 4_000_000_000_000),
    call("expiretime", "s"),
    call("pexpiretime", "s"),
    call("ttl", "s"),
    call("pttl", "s"),
    call("persist", "s"),
    call("dump", "s"),
    call("dump", "none"),
    call("unlink", "copied"),
    call("delete", "s4", "none"),
    call("rpush", "l", "a", "b", "c", "d"),
    call("lpush", "l", 1, 2.5, b"x"),
    call("lpushx", "none", "a"),
    call("rpushx", "l", "e"),
    call("lpop", "l"),
    call("lpop", "none"),
    call("rpop", "l"),
    call("lpop_many", "l", 1),
    call("lpop_many", "none", 1),
    call("rpop_many", "l", 1),
    call("llen", "l"),
    call("lindex", "l", 0),
    call("lindex", "l", 99),
    call("lset", "l", 0, "z"),
    call("lrange", "l", 0, -1),
    call("linsert", "l", "BEFORE", "b", "y"),
    call("lpos", "l", "b", rank=1),
    call("lpos", "l", "none"),
    call("lrem", "l", 0, "y"),
    call("lmove", "l", "l2", "LEFT", "RIGHT"),
    call("rpoplpush", "l", "l2"),
    call("blmove", "l2", "l", "LEFT", "RIGHT", timeout_s=1),
    call("blpop", "none", "l", timeout_s=1),
    call("blpop", "none", timeout_s=0.001),
    call("brpop", "none", timeout_s=0.001),
    call("ltrim", "l", 0, 0),
    call("hset", "h", {"a": 1, "b": "x"}),
    call("hsetnx", "h", "a", 2),
    call("hget", "h", "a"),
    call("hget", "h", "none"),
    call("hmget", "h", "a", "none"),
    call("hgetall", "h"),
    call("hexists", "h", "a"),
    call("hlen", "h"),
    call("hkeys", "h"),
    call("hvals", "h"),
    call("hstrlen", "h", "a"),
    call("hincrby", "h", "a", 2),
    call("hincrbyfloat", "h", "a", 0.5),
    call("hdel", "h", "b", "none"),
    call("sadd", "t", "a", "b", 3),
    call("sadd", "u", "b", "c"),
    call("srem", "t", "none"),
    call("smembers", "t"),
    call("smembers", "none"),
    call("sismember", "t", "a"),
    call("smismember", "t", "a", "none"),
    call("scard", "t"),
    call("srandmember", "t"),
    call("smove", "t", "u", "a"),
    call("sinter", "t", "u"),
    call("sunion", "t", "u"),
    call("sdiff", "t", "u"),
    call("sinterstore", "v", "t", "u"),
    call("sunionstore", "v", "t", "u"),
    call("sdiffstore", "v", "t", "u"),
    call("sintercard", "t", "u"),
    call("spop", "u"),
    call("spop", "none"),
    call("zadd", "z", {"a": 1, "b": 2.5, "c": 3}),
    call("zadd", "z", {"a": 5}, gt=True, ch=True),
    call("zincrby", "z", 1.5, "a"),
    call("zrem", "z", "none"),
    call("zscore", "z", "a"),
    call("zscore", "z", "none"),
    call("zmscore", "z", "a", "none"),
    call("zcard", "z"),
    call("zcount", "z", "-inf", "(5"),
    call("zlexcount", "z", "-", "+"),
    call("zrank", "z", "a"),
    call("zrank", "z", "none"),
    call("zrevrank", "z", "a"),
    call("zrange", "z", 0, -1),
    call("zrange", "z", "+inf", "-inf", byscore=True, rev=True),
    call("zrange_withscores", "z", 0, -1),
    call("zrange_withscores", "z", 0, -1, rev=True),
    call("zrangebyscore", "z", 0, 99),
    call("zunionstore", "z2", "z"),
    call("zinterstore", "z3", "z", "z2"),
    call("zpopmin", "z"),
    call("zpopmax", "z", 5),
    call("bzpopmin", "none", "z2", timeout_s=1),
    call("bzpopmin", "none", timeout_s=0.001),
    call("bzpopmax", "z2", timeout_s=1),
    call("zremrangebyscore", "z3", 0, 1),
    call("zremrangebyrank", "z3", 0, 0),
    call("xadd", "x", {"f": 1, "g": "h"}),
    call("xadd", "x", {"f": 2}, id="9999999999999-1", maxlen=10),
    call("xlen", "x"),
    call("xrange", "x"),
    call("xrange", "x", "-", "+", count=1),
    call("xrevrange", "x"),
    call("xack", "x", "group", "1-1"),
    call("xdel", "x", "9999999999999-1"),
    call("xtrim", "x", 0),
    call("pfadd", "p", "a", "b"),
    call("pfcount", "p"),
    call("pfmerge", "p2", "p"),
    call("publish", "channel", "message"),
    call("ping"),
    call("echo", "é"),
    call("time"),
    call("dbsize"),
    call("info"),
    call("info", "server"),
    call("config_get", "maxmemory*"),
    call("config_set", "slowlog-max-len", 128),
    call("flushdb"),
    call("flushall"),
]
# Commands of Redis 8, which redis-server 7 does not know: on Holdfast alone.
CALLS_OF_REDIS_8: list[Call] = [
    call("set", "s", "v"),
    call("set_if", "s", "w", ifeq="v", ex_s=100),
    call("set_if", "s", "x", ifne="w", keepttl=True),
    call("msetex", {"a": 1, "b": 2.5}, nx=True, ex_s=100),
    call("msetex", {"a": 1, "b": 2.5}, nx=True),
    call("increx", "n", 5, lbound=0, ubound=10, px_ms=100_000, enx=True),
    call("increx", "n", ubound=3, saturate=True, persist=True),
    call("digest", "s"),
    call("digest", "none"),
    call("delex", "s", ifeq="nope"),
    call("delex", "s", ifdne="0123456789abcdef"),
    call("delex", "s"),
    call("rpush", "l", "a", "b", "c"),
    call("lmovem", "l", "l2", "LEFT", "RIGHT", 2),
    call("lmovem", "none", "l2", "LEFT", "RIGHT", 2),
    call("hsetex", "h", {"a": 1, "b": "x"}, fnx=True, exat_s=4_000_000_000),
    call("hsetex", "h", {"a": 1}, fnx=True),
    call("hsetex", "h", {"a": 2}, fxx=True, keepttl=True),
    call("hgetex", "h", "a", "none", px_ms=100_000),
    call("hgetex", "h", "a", persist=True),
    call("hgetdel", "h", "a", "none"),
    call("sadd", "t", "a", "b"),
    call("sunioncard", "t", "none"),
    call("sdiffcard", "t", "none"),
]
# Whose argument comes from a reply.
BY_HAND = {"restore"}


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, to the last element."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is None:
        return type(value) is (type(None) if hint is None else hint)
    if origin in (list, set):
        return type(value) is origin and all(conforms(item, args[0]) for item in value)
    if origin is dict:
        pairs = value.items() if type(value) is dict else [(object, object)]
        return all(conforms(key, args[0]) and conforms(item, args[1]) for key, item in pairs)
    if origin is tuple:
        return type(value) is tuple and len(value) == len(args) and all(map(conforms, value, args))
    return any(conforms(value, option) for option in args)  # a union


def result_hint(name: str, value_type: type) -> Any:
    """The declared result type of the generated method, with V filled in."""
    hint = typing.get_type_hints(getattr(TypedSyncCommands, name))["return"]
    parameters: tuple[Any, ...] = getattr(hint, "__parameters__", ())
    if typing.get_origin(hint) is None and isinstance(hint, typing.TypeVar):
        return value_type
    return hint[(value_type,) * len(parameters)] if parameters else hint


def test_every_method_is_called_here() -> None:
    public = {name for name in vars(TypedCommands) if not name.startswith("_")}
    assert {name for name, _, _ in (*CALLS, *CALLS_OF_REDIS_8)} | BY_HAND == public


async def checked(methods: Any, one: Call, value_type: type) -> Any:
    """The result of a call, which is of the declared type."""
    name, args, options = one
    called: Awaitable[Any] = getattr(methods, name)(*args, **options)
    value = await called
    hint = result_hint(name, value_type)
    assert conforms(value, hint), f"{name}{args} returned {value!r}, which is no {hint}"
    return value


@pytest.mark.parametrize("value_type", [str, bytes])
def test_methods_of_redis_8(value_type: type) -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            methods: Any = client if value_type is str else client.binary
            for one in CALLS_OF_REDIS_8:
                await checked(methods, one, value_type)

    asyncio.run(scenario())


@pytest.mark.parametrize("value_type", [str, bytes])
def test_methods_return_the_type_that_they_declare(play: Play, value_type: type) -> None:
    async def scenario(client: Client) -> None:
        methods: Any = client if value_type is str else client.binary
        dumped = None
        for one in CALLS:
            value = await checked(methods, one, value_type)
            if one[0] == "dump" and value is not None:
                dumped = value
        assert await methods.restore("r", 0, dumped) is None
        assert await methods.restore("r", 0, dumped, replace=True) is None
        await client.flushall()

    play(scenario)


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, int, True),
        (True, int, False),
        ([1, "a"], list[int], False),
        ({"a": 1}, dict[str, int], True),
        ([], dict[str, int], False),
        (None, str | None, True),
        (("a", b"b"), tuple[str, str], False),
        (None, None, True),
    ],
)
def test_the_check_itself(value: Any, hint: Any, expected: bool) -> None:
    assert conforms(value, hint) is expected
