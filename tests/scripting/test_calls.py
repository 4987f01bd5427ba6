"""`redis.call` takes a shortcut for a command it has called before. The result is the same."""

import pytest

from holdfast.store.store import MemoryStore
from tests.scripting.running import Running

# The first call of a command takes the long way, as do calls that the shortcut does not support.
THREE_TIMES = "local all = {} for i = 1, 3 do all[i] = {%s} end return all"

ARGUMENTS = {
    "texts": "'a', 'b'",
    "empty ones": "'', ''",
    "the separator": "'\\255', 'a\\255b'",
    "a separator and its number": "'\\2\\255x', '\\255\\255'",
    "long ones": "('x'):rep(499), ('y'):rep(5000)",
    "whole numbers": "0, -1, 7, 100, 101, -101, 2^31, -2^53",
    "three whole numbers": "0, -1, 7",
    "at the limit of what Lua writes": "1e14, 1e14 - 1, -1e14",
    "large numbers": "1e15, 2^63, -1e300",
    "fractions": "0.1, -1.5, 1 / 3",
    "the negative zero": "-0, 0, 0 * -1",
    "nothing finite": "1 / 0, -1 / 0, 0 / 0",
    "nil": "nil",
    "nil among others": "'a', nil, 'b'",
    "nil at the end": "'a', nil",
    "true": "'a', true",
    "a table": "'a', {}",
    "a table that can be joined": "'a', setmetatable({}, {__concat = function() return 'x' end})",
    "four": "'a', 'b', 'c', 'd'",
    "nine": "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'",
}

CALLS = {
    "a bulk": "redis.call('get', 'k')",
    "nothing": "redis.call('get', 'none')",
    "a number": "redis.call('exists', 'k')",
    "a status": "redis.call('set', 'k', 'v').ok",
    "another status": "redis.call('type', 'k').ok",
    "an array": "unpack(redis.call('lrange', 'l', 0, -1))",
    "an array of one": "unpack(redis.call('keys', 'k'))",
    "an empty array": "#redis.call('lrange', 'none', 0, -1)",
    "with nothing in it": "unpack(redis.call('mget', 'k', 'none', 'k'))",
    "of arrays": "#redis.call('scan', 0), #redis.call('scan', 0)[2]",
    "no arguments": "#redis.call('time')",
    "no arguments and a status": "redis.call('ping').ok",
    "an error": "redis.pcall('get', 'l').err",
    "an error of the arity": "redis.pcall('get').err, redis.pcall('get', 'a', 'b').err",
    "an unknown command": "redis.pcall('nope', 'a').err",
    "one that scripts may not call": "redis.pcall('watch', 'a').err",
    "a container": "redis.call('object', 'encoding', 'k')",
    "no command": "redis.pcall().err",
    "a name that is none": "redis.pcall({}, 'a').err, redis.pcall(nil).err",
    "a number for a name": "redis.pcall(1, 'a').err",
    "with and without a count": "redis.call('lindex', 'l', 0), redis.call('srandmember', 's'),"
    " unpack(redis.call('srandmember', 's', 1))",
    "in a coroutine": "coroutine.wrap(function() return redis.call('get', 'k') end)()",
    "an array in a coroutine": "coroutine.wrap(function()"
    " return unpack(redis.call('lrange', 'l', 0, -1)) end)()",
    "a large reply": "#redis.call('get', 'large')",
    "many values": "#redis.call('lrange', 'long', 0, -1)",
    "as in RESP3": "(function() redis.setresp(3) local r = redis.call('hgetall', 'h').map.f"
    " local n = tostring(redis.call('get', 'none')) redis.setresp(2) return r, n end)()",
    "back in RESP2": "unpack(redis.call('hgetall', 'h'))",
}


@pytest.fixture
def running() -> Running:
    running = Running(MemoryStore())
    running.do(b"SET", b"k", b"v")
    running.do(b"SET", b"large", b"x" * (3 << 20))
    running.do(b"RPUSH", b"l", b"a", b"b")
    running.do(b"RPUSH", b"long", *[b"x"] * 300)
    running.do(b"SADD", b"s", b"m")
    running.do(b"HSET", b"h", b"f", b"v")
    return running


@pytest.mark.parametrize("given", ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.parametrize("command", ["rpush", "echo"])
def test_arguments_arrive_as_they_are(running: Running, given: str, command: str) -> None:
    """A list shows the arguments received; `echo` is there for the case of a single argument."""
    script = f"""
        local function plain(reply)
            if type(reply) == 'table' then return {{'error', reply.err}} end
            return {{reply, unpack(redis.call('lrange', 'seen', 0, -1))}}
        end
        local all = {{}}
        for i = 1, 3 do
            redis.call('del', 'seen')
            if '{command}' == 'echo' then
                all[i] = plain(redis.pcall('echo', (({{{given}}})[1])))
            else
                all[i] = plain(redis.pcall('rpush', 'seen', {given}))
            end
        end
        return all
    """
    first, second, third = running.many(b"EVAL", script.encode(), b"0")
    assert first == second == third
    assert first != []


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_command_answers_the_same_each_time(running: Running, call: str) -> None:
    script = (THREE_TIMES % call).encode()
    first, second, third = running.many(b"EVAL", script, b"0")
    assert first == second == third
    assert first != []


def test_permissions_are_checked_anew_for_each_script(running: Running) -> None:
    write = b"return redis.call('set', 'k', 'w')"
    for _ in range(3):
        assert running.do(b"EVAL", write, b"0") == b"OK"
        assert b"not allowed from read-only" in running.error(b"EVAL_RO", write, b"0")
    running.do(b"ACL", b"SETUSER", b"default", b"-set")
    assert b"can't run this command" in running.error(b"EVAL", write, b"0")
    running.do(b"ACL", b"SETUSER", b"default", b"+set")
    assert running.do(b"EVAL", write, b"0") == b"OK"


def test_calls_are_counted_whichever_way_they_go(running: Running) -> None:
    script = b"for i = 1, 5 do redis.call('get', 'k') redis.pcall('get', 'l') end"
    running.do(b"EVAL", script, b"0")
    stats = running.engine.commands.stats["get"]
    assert (stats.calls, stats.failed) == (10, 5)


def test_names_without_end_do_not_fill_the_memory(running: Running) -> None:
    script = b"for i = 1, 20000 do redis.pcall('no' .. i, 'a') end return gcinfo() < 8192"
    assert running.do(b"EVAL", script, b"0") == 1
