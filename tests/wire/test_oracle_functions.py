"""FUNCTION and FCALL against redis-server, byte for byte, and libraries that move between the two.

FUNCTION LIST has no order in Redis, so a compared list has one library with one function, or is
sorted first.
"""

import pytest

from tests.harness import HoldfastServer, Pair, RawClient, RedisServer


def library(code: str, name: str = "lib") -> str:
    return f"#!lua name={name}\n{code}"


def function(name: str, result: str = "1") -> str:
    return f"redis.register_function('{name}', function(keys, args) return {result} end)\n"


@pytest.fixture(autouse=True)
def without_libraries(pair: Pair) -> None:
    pair.same("FUNCTION", "FLUSH")


FIRST_LINES = [
    "",
    "x",
    "#!lua",
    "#!lua\n",
    "#!\n",
    "#!lua name\n",
    "#!lua name=\n",
    "#!lua name=a-b\n",
    "#!lua name=a name=b\n",
    "#!lua Name=a foo=b\n",
    "#!py name=a\n",
    "#!LUA NAME=a\n",
    "#! lua name=a\n",
    "#!lua 'name=a\n",
    '#!lua "name=a b"\n',
    "#!lua name=a flags=no-writes\n",
    "#!lua name=a\0b\n",
    "#!lua name=a\n",
    "#!lua   'name=a'\t\nredis.register_function('f', function() return 1 end)",
]

CODES = [
    # Not Lua.
    "return +",
    "x y",
    "#!lua name=lib",
    # The visible names: almost none.
    "error('x')",
    "redis.call('ping')",
    "redis.pcall('ping')",
    "return redis.sha1hex('')",
    "return redis.setresp(3)",
    "redis.foo = 1",
    "redis = 1",
    "x = 1",
    "return KEYS[1]",
    "local x = _G",
    "local x = string.format",
    "local x = redis.REPL_ALL",
    "local x = redis.error_reply",
    "redis.breakpoint()",
    "redis.set_repl(1)",
    "redis.acl_check_cmd('get')",
    "for k in pairs(redis) do end",
    "coroutine.wrap(function() end)()",
    "pcall(function() end)",
    "setmetatable({}, {})",
    "local x = redis.REDIS_VERSION .. redis.REDIS_VERSION_NUM .. redis.LOG_DEBUG x()",
    # Errors.
    "local x = ('x'):nope()",
    "local t = {} t.x.y = 1",
    "local x = nil + 1",
    "local a = ('x'):gsub('x', function() return nope end)",
    "local function f() return nope end\nf()",
    "redis.log()",
    "redis.log('a', 'b')",
    "redis.log(9, 'b')",
    function("f") + "x = 1",
    "return {err='x'}",
    "return 5",
    "while true do end",
    # register_function, by position
    "redis.register_function()",
    "redis.register_function(1, 2, 3)",
    "redis.register_function('a')",
    "redis.register_function(1)",
    "redis.register_function(1, 2)",
    "redis.register_function({}, 2)",
    "redis.register_function('a', 2)",
    "redis.register_function('a-b', function() end)",
    "redis.register_function('', function() end)",
    "redis.register_function('a\\0', function() end)",
    function("f") + function("f"),
    "redis.register_function(5, function() end)",
    "return redis.register_function('f', function() end)",
    "redis.register_function('f', redis.log)",
    "redis.register_function('f', ('x').upper)",
    # … and by name
    "redis.register_function{}",
    "redis.register_function{function_name='a'}",
    "redis.register_function{callback=function() end}",
    "redis.register_function{function_name={}}",
    "redis.register_function{description={}}",
    "redis.register_function{callback={}}",
    "redis.register_function{flags=1}",
    "redis.register_function{flags={'x'}}",
    "redis.register_function{flags={{}}}",
    "redis.register_function{x=1}",
    "redis.register_function{[1]=1}",
    "redis.register_function{[{}]=1}",
    "redis.register_function{function_name=5, callback=function() end}",
    "redis.register_function{FUNCTION_NAME='q', CallBack=function() end, FLAGS={}}",
    "redis.register_function{function_name='q', callback=function() end, flags={1}}",
    "redis.register_function{function_name='q', callback=function() end, flags={'no-writes',nil}}",
    (
        "redis.register_function{function_name='q', callback=function() end, description=5, "
        "flags={'no-writes','NO-WRITES','allow-stale','no-cluster','allow-cross-slot-keys',"
        "'allow-oom'}}"
    ),
]


@pytest.mark.parametrize("code", FIRST_LINES)
def test_the_first_line(pair: Pair, code: str) -> None:
    pair.same("FUNCTION", "LOAD", code)
    pair.same("FUNCTION", "LIST", "WITHCODE")


@pytest.mark.parametrize("code", CODES)
def test_code_of_a_library(pair: Pair, code: str) -> None:
    pair.same("FUNCTION", "LOAD", library(code))
    pair.same("FUNCTION", "LIST", "WITHCODE")
    pair.same("FUNCTION", "STATS")


BODIES = [
    "return {keys, args, #keys, #args}",
    "return select('#', keys, args)",
    "return redis.call('set', keys[1] or 'k', args[1] or 'v')",
    "redis.call('set', 'k', 'v') return redis.call('get', 'k')",
    "return redis.call('nope')",
    "return redis.pcall('nope')",
    "local x = redis.call('nope') return x",
    "return redis.error_reply('oops')",
    "return redis.status_reply('fine')",
    "redis.setresp(3) return {redis.call('hgetall', 'h'), true, {double=1.5}}",
    "return {true, false, 1.5, 'x', {}}",
    "error('boom')",
    "error({err='X y'})",
    "error({err='X y', line=3})",
    "return register_function",
    "return redis.register_function('a', function() end)",
    "return at_load.register_function('a', function() end)",
    "return at_load.call('ping')",
    "return at_load.foo",
    "return KEYS",
    "return ARGV",
    "x = 1",
    "return x",
    "return loadstring('return 1 + 1')()",
    "return loadstring('error(1)')()",
    "return _G._G == _G",
    "return __redis__err__handler",
    "return redis.breakpoint()",
    "return redis.replicate_commands()",
    "return redis.REDIS_VERSION ~= nil",
    "local t = {} for k in pairs(_G) do t[#t + 1] = k end table.sort(t) return t",
    "local t = {} for k in pairs(redis) do t[#t + 1] = k end table.sort(t) return t",
    "local function deep() error('in deep') end\ndeep()",
    "local ok, e = pcall(redis.call, 'nope') return e",
    "return redis.acl_check_cmd('get', 'a')",
    "return redis.call('fcall', 'f', 0)",
    "return redis.call('function', 'list')",
    "return redis.call('function', 'stats')",
    "return redis.call('function', 'flush')",
    "return redis.call('eval', 'return 1', 0)",
    "seen = (seen or 0) + 1",
    "count = count + 1 return count",
]


@pytest.mark.parametrize("body", BODIES)
def test_body_of_a_function(pair: Pair, body: str) -> None:
    head = "local at_load, count = redis, 0\nredis.register_function('f', function(keys, args) "
    pair.same("FUNCTION", "LOAD", library(head + body + " end)"))
    for _ in range(2):
        pair.same("FCALL", "f", 0)
        pair.same("FCALL", "F", 2, "a", "b", "c")
    pair.same("FCALL_RO", "f", 0)
    flagged = head.replace("'f', ", "{function_name='f', flags={'no-writes'}, callback=")
    pair.same("FUNCTION", "LOAD", "REPLACE", library(flagged + body + " end}"))
    pair.same("FCALL", "f", 1, "a")
    pair.same("FCALL_RO", "f", 1, "a")


@pytest.mark.parametrize(
    "command",
    [
        ("FCALL", "nope", "x"),
        ("FCALL", "f", "x"),
        ("FCALL", "f", "-1"),
        ("FCALL", "f", "3"),
        ("FCALL", "f"),
        ("FCALL", "f", "999", *map(str, range(1000))),
        ("FCALL_RO", "f", "0"),
        ("FCALL_RO", "nope", "0"),
        ("FUNCTION",),
        ("FUNCTION", "NOPE"),
        ("FUNCTION", "LOAD"),
        ("FUNCTION", "LOAD", library(function("g"))),
        ("FUNCTION", "LOAD", library(function("f"), "other")),
        ("FUNCTION", "LOAD", library(function("F"), "LIB")),
        ("FUNCTION", "LOAD", library(function("g"), "LIB")),
        ("FUNCTION", "LOAD", "REPLACE", library(function("g"))),
        ("FUNCTION", "LOAD", "replace", "REPLACE", library(function("g"))),
        ("FUNCTION", "LOAD", "REPLACE", library("return +")),
        ("FUNCTION", "LOAD", "REPLACE", library("x = 1")),
        ("FUNCTION", "LOAD", "x", library(function("g"))),
        ("FUNCTION", "LIST"),
        ("FUNCTION", "LIST", "withcode"),
        ("FUNCTION", "LIST", "WITHCODE", "WITHCODE"),
        ("FUNCTION", "LIST", "LIBRARYNAME"),
        ("FUNCTION", "LIST", "a\nb\r\n"),
        ("FUNCTION", "LIST", "a\0b"),
        ("FUNCTION", "LOAD", "a\nb\r\n", "x"),
        ("FUNCTION", "LOAD", "a\0b", "x"),
        ("FUNCTION", "LIST", "LIBRARYNAME", "LI*"),
        ("FUNCTION", "LIST", "LIBRARYNAME", "x*"),
        ("FUNCTION", "LIST", "libraryname", "l[a-k]b", "WITHCODE"),
        ("FUNCTION", "LIST", "LIBRARYNAME", "a", "LIBRARYNAME", "a"),
        ("FUNCTION", "LIST", "x"),
        ("FUNCTION", "STATS"),
        ("FUNCTION", "STATS", "x"),
        ("FUNCTION", "DELETE"),
        ("FUNCTION", "DELETE", "LIB"),
        ("FUNCTION", "DELETE", "lib"),
        ("FUNCTION", "DELETE", "lib", "x"),
        ("FUNCTION", "DUMP", "x"),
        ("FUNCTION", "RESTORE"),
        ("FUNCTION", "RESTORE", "x"),
        ("FUNCTION", "RESTORE", "x", "y"),
        ("FUNCTION", "RESTORE", "x", "FLUSH", "z"),
        ("FUNCTION", "FLUSH"),
        ("FUNCTION", "FLUSH", "async"),
        ("FUNCTION", "FLUSH", "SYNC"),
        ("FUNCTION", "FLUSH", "x"),
        ("FUNCTION", "flush", "SYNC", "x"),
        ("FUNCTION", "KILL"),
        ("FUNCTION", "KILL", "x"),
        ("FUNCTION", "HELP", "x"),
        ("COMMAND", "GETKEYS", "FCALL", "f", "2", "a", "b", "c"),
        ("COMMAND", "GETKEYS", "FCALL_RO", "f", "1", "a", "b", "c"),
        ("FLUSHALL",),
    ],
)
def test_a_command(pair: Pair, command: tuple[str, ...]) -> None:
    pair.same("FUNCTION", "LOAD", library(function("f", "{keys, args}")))
    pair.same(*command)
    pair.same("FCALL", "f", 1, "a", "b")
    pair.same("FCALL", "g", 0)
    pair.same("FUNCTION", "STATS")


def test_functions_in_a_transaction(pair: Pair) -> None:
    pair.same("MULTI")
    pair.same("FUNCTION", "LOAD", library(function("f", "redis.call('incr', 'n')")))
    pair.same("FCALL", "f", 0)
    pair.same("FCALL", "nope", 0)
    pair.same("FUNCTION", "LIST")
    pair.same("GET", "n")
    pair.same("EXEC")


def test_permissions(pair: Pair) -> None:
    rules = ("on", "nopass", "~mine*", "+fcall", "+get", "+set", "+function|list", "+del")
    pair.same("ACL", "SETUSER", "caller", "reset", *rules)
    pair.same("FUNCTION", "LOAD", library(function("f", "redis.call(args[1], args[2])")))
    pair.same("AUTH", "caller", "x")
    pair.same("FCALL", "f", 0, "get", "mine")
    pair.same("FCALL", "f", 0, "get", "other")
    pair.same("FCALL", "f", 1, "other", "get", "mine")
    pair.same("FCALL", "f", 0, "incr", "mine")
    pair.same("FCALL_RO", "f", 0)
    pair.same("FUNCTION", "LIST")
    pair.same("FUNCTION", "STATS")
    pair.same("FUNCTION", "FLUSH")
    pair.same("AUTH", "default", "x")
    pair.same("ACL", "DELUSER", "caller")


def test_libraries_move_both_ways(pair: Pair) -> None:
    long_code = function("f", "'" + "long " * 100 + "'") + "-- " + "x" * 100_000
    for sender, receiver in ((pair.oracle, pair.ours), (pair.ours, pair.oracle)):
        sender.command("FUNCTION", "FLUSH")
        for name, code in (("a", long_code), ("b", function("g", "keys")), ("c", function("h"))):
            assert sender.command("FUNCTION", "LOAD", library(code, name))[:1] == b"$"
        payload = sender.command("FUNCTION", "DUMP").partition(b"\r\n")[2][:-2]
        assert receiver.command("FUNCTION", "RESTORE", payload, "FLUSH") == b"+OK\r\n"
        pair.same("FUNCTION", "STATS")
        for name in "abc":
            pair.same("FUNCTION", "LIST", "LIBRARYNAME", name, "WITHCODE")
        pair.same("FCALL", "f", 0)
        pair.same("FCALL", "g", 1, "x")
        for damaged in (payload[:-1], payload[1:], payload[:9], b"", payload[:20] + payload[21:]):
            pair.same("FUNCTION", "RESTORE", damaged)


def test_restoring_is_all_or_nothing(pair: Pair) -> None:
    def payload(*codes: str) -> bytes:
        """As the oracle dumps it."""
        pair.oracle.command("FUNCTION", "FLUSH")
        for code in codes:
            assert pair.oracle.command("FUNCTION", "LOAD", code)[:1] == b"$"
        return pair.oracle.command("FUNCTION", "DUMP").partition(b"\r\n")[2][:-2]

    a, b = library(function("f"), "a"), library(function("g"), "b")
    c, d = library(function("f"), "c"), library(function("h"), "a")
    payloads = [payload(), payload(a), payload(b), payload(b, c), payload(d), payload(b, d)]
    payloads.append(payload(library(function("g"), "a")))
    for policy in ((), ("APPEND",), ("REPLACE",), ("flush",)):
        for one in payloads:
            pair.same("FUNCTION", "FLUSH")
            pair.same("FUNCTION", "LOAD", a)
            pair.same("FUNCTION", "LOAD", library(function("x") + function("y"), "z"))
            pair.same("FUNCTION", "RESTORE", one, *policy)
            pair.same("FUNCTION", "STATS")
            for name in "abc":
                pair.same("FUNCTION", "LIST", "LIBRARYNAME", name, "WITHCODE")
            for name in "fghx":
                pair.same("FCALL", name, 0)


def test_others_and_functions_that_run(
    pair: Pair, server: HoldfastServer, oracle: RedisServer
) -> None:
    """The replies of both while a function, and then a script, overruns."""
    limit = pair.same("CONFIG", "GET", "busy-reply-threshold")
    pair.same("CONFIG", "SET", "busy-reply-threshold", "20")
    loop = "redis.register_function('f', function() while true do end end)"
    pair.same("FUNCTION", "LOAD", library(loop))
    for kind, other, command in (
        ("FUNCTION", "SCRIPT", ("FCALL", "f", 0)),
        ("SCRIPT", "FUNCTION", ("EVAL", "while true do end", 0)),
    ):
        with (
            RawClient.connect(server.port) as our_victim,
            RawClient.connect(oracle.port) as their_victim,
        ):
            for victim, client in ((our_victim, pair.ours), (their_victim, pair.oracle)):
                victim.send_command(*command)
                while client.command("PING") == b"+PONG\r\n":
                    pass
            pair.same("PING")
            pair.same("FCALL", "f", 0)
            pair.same("FUNCTION", "LIST")
            pair.same(other, "KILL")
            if kind == "SCRIPT":
                pair.same("FUNCTION", "STATS")
            else:
                for client in (pair.ours, pair.oracle):
                    stats = client.command("FUNCTION", "STATS")
                    assert b"running_script\r\n" in stats
                    assert b"$4\r\nname\r\n$1\r\nf\r\n" in stats
                    assert b"*3\r\n$5\r\nFCALL\r\n$1\r\nf\r\n$1\r\n0\r\n" in stats
                    assert b"duration_ms\r\n:" in stats
            pair.same(kind, "KILL")
            assert our_victim.read_reply() == their_victim.read_reply()
            pair.same("PING")
    pair.same("CONFIG", "SET", "busy-reply-threshold", limit.split(b"\r\n")[-2])


def test_info_about_functions(pair: Pair) -> None:
    def numbers(client: RawClient) -> dict[bytes, bytes]:
        lines = client.command("INFO", "memory").split(b"\r\n")
        facts = dict(line.split(b":", 1) for line in lines if line.count(b":") == 1)
        return {name: facts[name] for name in (b"number_of_functions", b"number_of_libraries")}

    for count in range(3):
        assert numbers(pair.ours) == numbers(pair.oracle)
        pair.same(
            "FUNCTION", "LOAD", library(function(f"f{count}") + function(f"g{count}"), f"l{count}")
        )
    names = {
        line.split(b":")[0]
        for line in pair.oracle.command("INFO", "memory").split(b"\r\n")
        if any(word in line for word in (b"lua", b"script", b"function", b"librar", b"_vm_"))
    }
    ours = {line.split(b":")[0] for line in pair.ours.command("INFO", "memory").split(b"\r\n")}
    assert len(names) == 13
    assert names <= ours
