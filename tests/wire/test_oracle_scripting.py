"""Scripts against redis-server, byte for byte: conversions, errors, and the names that a script
sees."""

import random
import re

import pytest

from tests.harness import HoldfastServer, Pair, RawClient, RedisServer, open_pair

STREAM = "redis.call('xadd', 's', '1-1', 'f', 'v') redis.call('xgroup', 'create', 's', 'g', 0) "
PLACE = "redis.call('geoadd', 'p', 13.361389, 38.115556, 'a') "
SCRIPTS = [
    # The return values of scripts.
    "return 1",
    "return 1.9",
    "return -1.9",
    "return {1, 'a', 2.9, -2.9, 1e300}",
    "return {1, nil, 3}",
    "return {'a', err = 'BAD thing'}",
    "return {'a', ok = 1}",
    "return {'a', false, true}",
    "return {1, {2, {'x'}}}",
    "local t = {} for i = 1, 200 do t[i] = i end return t",
    "local t = {} for i = 1, 201 do t[i] = 'x' .. i end return t",
    "return setmetatable({1, 2}, {__index = function() return 'x' end})",
    "return redis",
    "return 1e300",
    "return 0/0",
    "return 'a', 2",
    "return",
    "return true",
    "return false",
    "return nil",
    "return {}",
    "return {{}}",
    "return {1, {2, {3}}, 'x', 1.5, true, false}",
    "return {1, nil, 3}",
    "return {nil, 1}",
    "return {ok='fine'}",
    "return {ok='a\\r\\nb'}",
    "return {err='E'}",
    "return {err='My own error'}",
    "return {err='a\\r\\nb'}",
    "return {ok='fine', err='E'}",
    "return {err=5}",
    "return {ok=5}",
    "return {double=3.5}",
    "return {double='3'}",
    "return {map={a=1}}",
    "return {map={[1]='a'}}",
    "return {map={[1.5]='a'}}",
    "return {map={[{'b'}]='a'}}",
    "return {map={[{map={}}]={}}}",
    "return {set={[{'b'}]=true}}",
    "return {verbatim_string={format='', string='a'}}",
    "return {verbatim_string={format='a\\0bc', string='a'}}",
    "return {big_number='+007'}",
    "return {big_number='1\\r\\n2'}",
    "return {map=3}",
    "return {set={a=true}}",
    "return {big_number='123'}",
    "return {verbatim_string={format='txt', string='x'}}",
    "return function() end",
    "return {cjson.decode('0x1p99999') == 1/0, cjson.decode('[-0x1P+99999]')[1] == -1/0}",
    "return {cjson.decode('0x1p-99999') == 0, cjson.decode('1e99999') == 1/0}",
    "local t = {1, 2, 3} table.insert(t, 2^53, 'x') return {t[0], t[1] == nil, t[4]}",
    "local t = {1, 2, 3} table.insert(t, -3, 'x') return {t[-3], t[1] == nil, t[4]}",
    "local t = {1, 2, 3} table.insert(t, 2^32 + 2, 'x') return t",
    "local t = {} for i = 1, 20000 do t[i] = -i end table.sort(t) return {t[1], t[20000]}",
    "local t = {} for i = 1, 20000 do t[i] = i end t[9] = 'x' return {pcall(table.sort, t)}",
    "return {pcall(error, cjson.null)}",
    # Patterns that could take long: here they are matched in Lua.
    "return {pcall(string.find, ('a'):rep(100), 'a*a*a*a*a*[')}",
    "return {pcall(string.match, ('a'):rep(100), '(a*)(a*)(a*)(a*)a*%')}",
    "return {pcall(string.gsub, ('ab'):rep(50), 'a*a*a*a*a*%f', '')}",
    "return {pcall(string.find, ('ab'):rep(50), 'a*a*a*a*a*%bx')}",
    "local n = 0 for a in ('^a'):rep(50):gmatch('^(a*)a*a*a*a*') do n = n + #a end return n",
    "return {('ab'):rep(50):find('^(a*)a*a*a*a*(b)')}",
    "return redis.sha1hex(cjson.encode(('a\\n\\0\"/'):rep(60000)))",
    # Functions that catch errors.
    (
        "local n = 0 local ok, e = xpcall(function() error('a') end, function(e) n = n + 1 if "
        "n < 3 then error('b') end return e .. n end) return {tostring(ok), e, n}"
    ),
    (
        "local n = 0 local ok, e = xpcall(function() error('a') end, function() n = n + 1 "
        "error('b') end) return {tostring(ok), e, n}"
    ),
    "return {xpcall(error, 5)}",
    "return {pcall(xpcall, error)}",
    "local ok, e, none = xpcall(error, function() return 1, 2 end) return {e, none}",
    "local n = 0 return {load(function() n = n + 1 if n < 3 then return 5 end end)}",
    "return select('#', load(function() return 'x x' end))",
    "local n = 0 return load(function() n = n + 1 return ({'return ', 7})[n] end)()",
    "return loadstring(('local x = 1 '):rep(150) .. (' '):rep(9000) .. 'return x + 1')()",
    "return {loadstring((' '):rep(9000) .. 'x x')}",
    "return redis.call",
    "redis.setresp(3) return {true, false}",
    "redis.setresp(3) return redis.call('get', 'missing')",
    "redis.setresp(3) return redis.call('get', 'missing') == nil",
    "redis.setresp(3) return redis.call('mget', 'missing', 'missing')",
    "redis.setresp(3) return {map={a={double=1.5}}}",
    "redis.setresp(3) return {true, {false}, {set={x=1}}}",
    "redis.setresp(2) return {true, false}",
    # The replies of commands.
    "return redis.call('set', 'k', 'v')",
    "return redis.call('set', 'k', 'v').ok",
    "return redis.call('get', 'missing')",
    "return redis.call('get', 'missing') == false",
    "return {redis.call('get', 'missing')}",
    "redis.call('set', 'k', 1.5) return redis.call('get', 'k')",
    "return redis.call('incr', 'n') + redis.call('incr', 'n')",
    "redis.call('rpush', 'l', 'a', 'b', 'c') return redis.call('lrange', 'l', 0, -1)",
    "for i = 1, 500 do redis.call('rpush', 'l', i) end return redis.call('lrange', 'l', 0, -1)",
    "redis.call('set', 'k', 'v') return redis.call('mget', 'k', 'missing', 'k')",
    "return redis.call('ping')",
    "return redis.call('PING', 'a')",
    "return redis.call('echo', 1e20)",
    "return redis.call('echo', 0/0)",
    "return redis.call('echo', 1/0)",
    "return redis.call('echo', 123456789012345678)",
    "return redis.call('echo', 0.1)",
    "return redis.call('echo', 3)",
    "return redis.call('select', 1)",
    "redis.call('select', 1) redis.call('set', 'in-one', 'x') return redis.call('dbsize')",
    "return redis.call('lpop', 'missing')",
    "return redis.call('scan', 0)",
    "return redis.call('type', 'missing')",
    "return redis.call('exists', 'k')",
    STREAM + "return redis.call('xread', 'streams', 's', 0)",
    STREAM + "redis.setresp(3) return redis.call('xread', 'streams', 's', 0)",
    STREAM + "return redis.call('xreadgroup', 'group', 'g', 'c', 'streams', 's', '>')",
    PLACE + "return redis.call('geopos', 'p', 'a', 'b')",
    PLACE + "redis.setresp(3) return redis.call('geopos', 'p', 'a')[1][1].double > 13",
    # Errors of commands.
    "return redis.call('nope')",
    "return redis.pcall('nope')",
    "return redis.call('get')",
    "return redis.pcall('get')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('set', 'a', {})",
    "return redis.call('set', 'a', true)",
    "return redis.call('subscribe', 'a')",
    "return redis.call('blpop', 'l', 0)",
    "return redis.call('eval', 'return 1', 0)",
    "return redis.call('multi')",
    "return redis.call('client', 'id')",
    "return redis.call('client', 'nope')",
    "return redis.call('client')",
    "return redis.call('config', 'get', 'port')",
    "redis.call('set', 's', 'x') return redis.pcall('lpush', 's', 'x')",
    "redis.call('set', 's', 'x') return {redis.pcall('lpush', 's', 'x'), 1}",
    "redis.call('set', 's', 'x') return redis.pcall('lpush', 's', 'x').err",
    "redis.call('set', 's', 'x') local ok, e = pcall(redis.call, 'lpush', 's', 'x') return e",
    "local function f() return redis.call('nope') end\nreturn f()",
    "return redis.call(\n'nope')",
    "local a = 1\nlocal b = redis.call('nope')",
    "local call = redis.call\nreturn call('nope')",
    "table.sort({3, 2, 1}, function(a, b) return redis.call('nope') end)",
    # Errors of scripts.
    "return 1 +",
    "x = ",
    "error('boom')",
    "error('boom', 0)",
    "error('boom', 2)",
    "error(12)",
    "error({err='BAD thing'})",
    "error({err='A b', foo=1})",
    "local function f() error('in f') end\nf()",
    "local t = nil\nreturn t.x",
    "local t = {} t.x.y = 1",
    "local t = {} t.f()",
    "return nil + 1",
    "return #nil",
    "return ('x') .. nil",
    "return {} < {}",
    "nofn()",
    "return nofn",
    "x = 1",
    "KEYS = 1",
    "_G.KEYS = 1",
    "string.rep()",
    "return string.rep('x')",
    "tonumber()",
    "return math.min()",
    "return math.max(1, 'a')",
    "return math.max(1, nil)",
    "return math.min({}, 2)",
    "local n = 0 / 0 return {math.min(1, n), math.max(1, n, 0)}",
    "return {math.max('0x10', 3), math.min(3, '2'), math.min('7')}",
    "local n = 0 / 0 n = math.min(n, 1) return tostring(n ~= n)",
    "return math.ldexp('a', 'b')",
    "return math.ldexp('a')",
    "return math.ldexp('3', '2')",
    "assert(false)",
    "assert(nil, 'msg')",
    "assert(redis.pcall('get', 'k') == 1, 'differs')",
    "string.gsub('a', 'a', function() return nope end)",
    "return {xpcall(function() error('a') end, function(e) return 'H' .. tostring(e) end)}",
    "local ok, e = pcall(error, {err='x'}) return tostring(e)",
    "local ok, e = pcall(error, {1}) return type(e)",
    "local ok, e = pcall(error) return type(e)",
    "local ok, e = pcall(function() error('x') end) return e",
    "local ok, e = pcall(function() local x = nil; return x.y end) return e",
    "return {coroutine.resume(coroutine.create(function() error('z') end))}",
    "local f = coroutine.wrap(function() error('x') end)\nf()",
    "return loadstring('return x')()",
    "return loadstring('error(\"a\")')()",
    "local f, e = loadstring('return +') return e",
    # The visible names.
    "return tostring(newproxy)",
    "return tostring(getfenv)",
    "return tostring(setfenv)",
    "return tostring(print)",
    "return tostring(dofile)",
    "return tostring(require)",
    "return tostring(debug)",
    "return tostring(os)",
    "return tostring(io)",
    "return tostring(python)",
    "return tostring(ffi)",
    "return tostring(jit)",
    "return tostring(module)",
    "return _VERSION",
    "return _G == _G._G",
    "return tostring(_G.nofoo)",
    "return rawget(_G, 'nofoo')",
    "rawset(_G, 'x', 1)",
    "setmetatable(_G, {})",
    "redis.foo = 1",
    "string.foo = 1",
    "cjson.foo = 1",
    "getmetatable('').__index = 1",
    "return type(getmetatable(''))",
    "return type(getmetatable(_G))",
    "return redis.nofield",
    "return string.nofield",
    "local n = 0 for k in pairs(string) do n = n + 1 end return n",
    "local n = 0 for k in pairs(redis) do n = n + 1 end return n",
    "local n = 0 for k in pairs(cjson) do n = n + 1 end return n",
    "local n = 0 for k in pairs(math) do n = n + 1 end return n",
    "local n = 0 for k in pairs(_G) do n = n + 1 end return n",
    "return __redis__err__handler('x').err",
    "local x = __redis__err__handler({err='q'}) return {x.err, x.source, x.line}",
    "return table.getn({1, 2})",
    "return math.mod(7, 3)",
    "return table.foreach({7}, function(k, v) return v end)",
    "return string.gfind and 1",
    "return loadstring('return 1')()",
    "local f = load(function() return nil end) return type(f)",
    "return tostring(loadstring(string.dump(function() return 1 end)))",
    "return {coroutine.resume(coroutine.create(function() coroutine.yield(1) end))}",
    "return coroutine.wrap(function() return 5 end)()",
    "return coroutine.create(redis.call)",
    "return coroutine.wrap(tostring)(5)",
    "return coroutine.wrap(string.gmatch('a', 'a'))()",
    "return coroutine.wrap(coroutine.wrap(function() return 5 end))()",
    "return coroutine.wrap(cjson.encode)(5)",
    "return coroutine.wrap(pcall)(function() return 5 end)",
    "return coroutine.create(5)",
    "return coroutine.wrap()",
    "return tostring(collectgarbage('count') > 0)",
    # redis.*
    "return redis.error_reply('x')",
    "return redis.error_reply('-x y')",
    "return redis.error_reply('-x')",
    "return redis.error_reply('-')",
    "return redis.error_reply('')",
    "return redis.error_reply('a b\\r\\nc')",
    "return redis.error_reply('-A b\\r\\n')",
    "return redis.error_reply()",
    "return redis.error_reply(5)",
    "return redis.status_reply('x')",
    "return redis.status_reply('a\\r\\nb')",
    "return redis.status_reply()",
    "return redis.status_reply(1)",
    "return redis.setresp(4)",
    "return redis.setresp()",
    "return redis.setresp(3)",
    "return redis.sha1hex('')",
    "return redis.sha1hex(5)",
    "return redis.sha1hex({})",
    "return redis.sha1hex()",
    "return redis.log(redis.LOG_NOTICE, 'a', 'b')",
    "return redis.log(0/0, 'a')",
    "return redis.log(-0.5, 'a')",
    "return redis.log(-1, 'a')",
    "return redis.log(3.5, 'a')",
    "return redis.log()",
    "return redis.log(0)",
    "return redis.log('a', 'b')",
    "return redis.log('1', 'b')",
    "return redis.log('9', 'b')",
    "return math.random(0/0)",
    "return math.random(0/0, 3)",
    "return math.random(1, 0/0)",
    "math.randomseed(0/0) return tostring(math.random())",
    "return redis.log(9, 'b')",
    "return {redis.set_repl(1)}",
    "return redis.set_repl(99)",
    "return redis.set_repl()",
    "return redis.set_repl('a')",
    "return redis.acl_check_cmd('get', 'a')",
    "return redis.acl_check_cmd('xx', 'a')",
    "return redis.acl_check_cmd()",
    "return redis.acl_check_cmd({})",
    "return redis.replicate_commands()",
    "return redis.breakpoint()",
    "return redis.debug()",
    "return redis.pcall('EXPIRE', 'k', '1', 'a\\nb\\r\\n').err",
    "return redis.call('EXPIRE', 'k', '1', 'a\\nb\\r\\n')",
    "return redis.error_reply('MY a\\nb\\r\\n')",
    "return {redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING}",
    "return {redis.REPL_ALL, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_NONE}",
    # Numbers and texts.
    "return tostring(1e15) .. tostring(1e100) .. tostring(2^53) .. tostring(1/0)",
    "return tostring(nil) .. tostring(1.5) .. tostring(2^63) .. tostring(-0) .. 1e14",
    "return string.format('%d %5.1f %q %x %s', 3.7, 3.14159, 'a\\nb', 255, 'x')",
    "return {3 % -2, -7 % 3, math.floor(-0.5), 0x10, 7 / 2}",
    "return {unpack({1, 2, 3})}",
    "return {string.find('hello world', 'o w'), string.find('hello', '(l)(l)')}",
    "return {string.gsub('hello', 'l', {l='L'})}",
    "return {string.match('key=value', '^(%w+)=(%w+)$')}",
    "local t = {} for k in string.gmatch('a,b,c', '[^,]+') do t[#t + 1] = k end return t",
    # Flags in the first line.
    "#!lua\nreturn 1",
    "#!lua flags=no-writes\nreturn redis.call('set', 'a', 'b')",
    "#!lua flags=no-writes\nreturn redis.call('get', 'a')",
    "#!lua flags=foo\nreturn 1",
    "#!lua flags=no-writes,allow-oom,allow-stale,no-cluster\nreturn 1",
    "#!lua flags=\nreturn 1",
    "#!py\nreturn 1",
    "#!lua name=x\nreturn 1",
    "#!lua",
]


# Values of every kind that a reply can be, as Lua writes them; a letter stands for any part of its
# kind. Maps and sets have one element: their order is each server's own.
VALUES = [
    *("{V}", "{V, V}", "{V, V, V}", "{map = {[K] = V}}", "{set = {[K] = V}}", "{double = D}"),
    *("{big_number = B}", "{verbatim_string = {format = F, string = L}}", "{ok = L}", "{err = E}"),
]
PARTS = {
    "L": ["1", "-1.5", "2^40", "'a'", "''", "'a\\r\\nb'", "true", "false", "nil", "{}"],
    "D": ["1", "0.1", "1e300", "-1/0", "'1'"],
    "B": ["'1'", "'+07'", "'a'", "''", "'1\\r\\n2'", "9"],
    "F": ["''", "'a'", "'txt'", "'abcdef'", "'a\\0b'", "5", "nil"],
    "E": ["'E a'", "'-E a'", "''", "'a\\r\\nb'", "5"],
}


def value(rng: random.Random, depth: int = 0) -> str:
    def part(kind: re.Match[str]) -> str:
        if kind[0] in PARTS:
            return rng.choice(PARTS[kind[0]])
        inner = value(rng, depth + 1)
        return "7" if kind[0] == "K" and inner == "nil" else inner

    is_leaf = depth > 3 or rng.random() < 0.3
    return re.sub(r"\b[A-Z]\b", part, "L" if is_leaf else rng.choice(VALUES))


def test_random_return_values_of_scripts(pair: Pair, rng: random.Random) -> None:
    for _ in range(300):
        version, returned = rng.choice([2, 3]), value(rng)
        pair.same("EVAL", f"redis.setresp({version}) return {returned}", 0)
    pair.same("PING")


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script(pair: Pair, script: str) -> None:
    pair.same("EVAL", script, 0)


@pytest.mark.parametrize(
    "command",
    [
        ("EVAL", "return 1", "a"),
        ("EVAL", "return 1", "-1"),
        ("EVAL", "return 1", "2", "a"),
        ("EVAL", "return 1"),
        ("EVAL", "return {KEYS[1], KEYS[2], ARGV[1], #KEYS, #ARGV}", "2", "a", "b", "c", "d"),
        ("EVAL", "KEYS[1] = 'x' return KEYS", "1", "a"),
        ("EVAL", "return ARGV", "0", *map(str, range(1000))),
        ("EVAL", "return KEYS", "999", *map(str, range(1000))),
        ("EVAL", "return redis.call('del', unpack(KEYS))", "999", *map(str, range(1000))),
        ("EVAL_RO", "return redis.call('get', 'a')", "0"),
        ("EVAL_RO", "return redis.call('set', 'a', 'b')", "0"),
        ("EVAL_RO", "return redis.call('publish', 'a', 'b')", "0"),
        ("EVAL_RO", "return redis.pcall('spublish', 'a', 'b')", "0"),
        ("EVAL_RO", "return redis.call('pfcount', 'a')", "0"),
        ("EVAL_RO", "#!lua flags=no-writes\nreturn redis.call('publish', 'a', 'b')", "0"),
        ("EVAL", "#!lua flags=no-writes\nreturn redis.call('publish', 'a', 'b')", "0"),
        ("EVAL", "return redis.call('publish', 'a', 'b')", "0"),
        ("EVAL_RO", "#!lua\nreturn 1", "0"),
        ("EVAL_RO", "#!lua flags=no-writes\nreturn 1", "0"),
        ("EVALSHA", "abc", "0"),
        ("EVALSHA", "a" * 40, "0"),
        ("EVALSHA_RO", "a" * 40, "0"),
        ("SCRIPT", "LOAD", "return +"),
        ("SCRIPT", "LOAD", "return 7"),
        ("SCRIPT", "EXISTS", "a", "b"),
        ("SCRIPT", "EXISTS"),
        ("SCRIPT", "FLUSH", "foo"),
        ("SCRIPT", "FLUSH", "SYNC"),
        ("SCRIPT", "FLUSH", "ASYNC", "x"),
        ("SCRIPT", "KILL"),
        ("SCRIPT", "DEBUG", "NO"),
        ("SCRIPT", "DEBUG", "maybe"),
        ("SCRIPT", "nope"),
        ("SCRIPT",),
    ],
)
def test_a_command(pair: Pair, command: tuple[str, ...]) -> None:
    pair.same(*command)


def test_loaded_scripts_are_found_by_their_digest(pair: Pair) -> None:
    for text in ("return 7", "#!lua flags=no-writes\nreturn ARGV[1]"):
        sha = pair.same("SCRIPT", "LOAD", text).split(b"\r\n")[1]
        pair.same("SCRIPT", "EXISTS", sha, "b" * 40, sha.upper())
        pair.same("EVALSHA", sha, 0, "a")
        pair.same("EVALSHA", sha.upper(), 0, "a")
        pair.same("EVALSHA_RO", sha, 0, "a")
    pair.same("SCRIPT", "FLUSH")
    pair.same("EVALSHA", sha, 0)
    pair.same("EVAL", "return 7", 0)
    pair.same("EVALSHA", "4ca238f611c9d0ae4e9a75a5dbac22aedc1e44282"[:40], 0)


def test_scripts_in_a_transaction(pair: Pair) -> None:
    pair.same("MULTI")
    pair.same("EVAL", "return redis.call('set', 'k', 'v')", 0)
    pair.same("EVAL", "return redis.call('nope')", 0)
    pair.same("EVAL", "return {1, 2, {3}}", 0)
    pair.same("GET", "k")
    pair.same("EXEC")


def test_random_numbers_are_the_same_after_a_start(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with (
        RedisServer(tmp_path_factory.mktemp("oracle")) as oracle,
        HoldfastServer(tmp_path_factory.mktemp("ours")) as ours,
        open_pair(ours, oracle, 2) as pair,
    ):
        for _ in range(3):
            pair.same("EVAL", "return {tostring(math.random()), math.random(1000)}", 0)
        pair.same("EVAL", "math.randomseed(5) return tostring(math.random())", 0)
        pair.same("EVAL", "return {math.random(5, 6), math.random(-3, 3)}", 0)
        pair.same("EVAL", "return math.random(0)", 0)
        pair.same("EVAL", "return math.random(2, 1)", 0)


LIBRARY = """#!lua name=tracked
    redis.register_function('declared', function(keys) return redis.call('get', keys[1]) end)
    redis.register_function('undeclared', function() return redis.call('get', 'k') end)
"""
READS: list[tuple[str | int, ...]] = [
    ("EVAL", "return redis.call('get', KEYS[1])", 1, "k"),
    ("EVAL", "return redis.call('get', 'k')", 0),
    ("EVAL", "return redis.call('get', 'other')", 1, "k"),
    ("EVAL", "return redis.call('set', KEYS[1], 'x')", 1, "k"),
    ("EVAL", "return 1", 1, "k"),
    ("EVAL", "redis.call('get', KEYS[1]) error('x')", 1, "k"),
    ("EVAL_RO", "return redis.call('get', KEYS[1])", 1, "k"),
    ("EVAL_RO", "return 1", 1, "k"),
    ("FCALL", "declared", 1, "k"),
    ("FCALL", "undeclared", 0),
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("mode", [(), ("OPTIN",), ("OPTIN", "YES"), ("OPTOUT", "NO"), ("NOLOOP",)])
def test_keys_that_a_script_reads_are_tracked(
    server: HoldfastServer,
    oracle: RedisServer,
    read: tuple[str | int, ...],
    mode: tuple[str, ...],
) -> None:
    heard = []
    for each in (server, oracle):
        with RawClient.connect(each.port) as client, RawClient.connect(each.port) as writer:
            writer.command("FLUSHALL")
            writer.command("FUNCTION", "LOAD", "REPLACE", LIBRARY)
            writer.command("SET", "k", "v")
            client.command("HELLO", 3)
            client.command("CLIENT", "TRACKING", "ON", *mode[:1])
            for answer in mode[1:]:
                client.command("CLIENT", "CACHING", answer)
            client.command(*read)
            writer.command("MSET", "k", "w", "other", "w")
            client.send_command("PING")
            told = [client.read_reply()]
            while told[-1] != b"+PONG\r\n":
                told.append(client.read_reply())
            heard.append(told)
    assert heard[0] == heard[1]


WRONG = "redis.pcall('LPUSH', 's', 'a')"
FAILING: list[tuple[str | int, ...]] = [
    ("EVAL", "redis.call('LPUSH', 's', 'a')", 0),
    ("EVAL", f"return {WRONG}", 0),
    ("EVAL", f"{WRONG} return 1", 0),
    ("EVAL", f"error({WRONG})", 0),
    ("EVAL", f"local t = {WRONG} t.err = 'NEW z' return t", 0),
    ("EVAL", f"return redis.error_reply({WRONG}.err)", 0),
    ("EVAL", f"return {WRONG}.err", 0),
    ("EVAL", "return redis.error_reply('MY x')", 0),
    ("EVAL", "return {err = 'MINE x'}", 0),
    ("EVAL", "return {err = 'TOLD x', ignore_error_stats_update = true}", 0),
    ("EVAL", "return {err = 'nothing behind it'}", 0),
    ("EVAL", "return {err = 'alone'}", 0),
    ("EVAL", "return {err = ''}", 0),
    ("EVAL", f"return {{err = '{'X' * 30} y'}}", 0),
    ("EVAL", f"return {{err = '{'X' * 31} y'}}", 0),
    ("EVAL", "return {1, redis.error_reply('MY x')}", 0),
    ("EVAL", "return {{{err = 'MY x'}}, {err = 'MY y'}, {err = 'YOUR z'}}", 0),
    ("EVAL", "return {{err = 'alone'}, {err = 5}}", 0),
    ("EVAL", "redis.setresp(3) return {map = {x = {err = 'MY x'}}}", 0),
    ("EVAL", f"return {{{WRONG}, {WRONG}, 1}}", 0),
    ("EVAL", f"return {{{WRONG}, {{err = 'MY x'}}, {{err = 'MY y'}}, redis.pcall('NOSUCH')}}", 0),
    ("EVAL", "error({err = 'OWN y'})", 0),
    ("EVAL", "error('z')", 0),
    ("EVAL", "return redis.call('GET')", 0),
    ("EVAL", "redis.pcall('GET') return 1", 0),
    ("EVAL", "redis.pcall('NOSUCH')", 0),
    ("EVAL", "redis.pcall('SUBSCRIBE', 'x')", 0),
    ("EVAL_RO", "return redis.call('SET', 's', '1')", 0),
    ("EVAL_RO", "return redis.pcall('SET', 's', '1')", 0),
    ("EVAL", "return redis.call('GET', 's')", 0),
    ("EVALSHA", "0" * 40, 0),
]


@pytest.mark.parametrize("script", FAILING)
@pytest.mark.parametrize("watched", [False, True])
def test_failures_in_scripts_are_counted_alike(
    server: HoldfastServer, oracle: RedisServer, script: tuple[str | int, ...], watched: bool
) -> None:
    """Also if each command is shown to a client with MONITOR."""
    found = []
    for each in (server, oracle):
        with RawClient.connect(each.port) as client, RawClient.connect(each.port) as monitor:
            client.command("SET", "s", "x")
            if watched:
                monitor.command("MONITOR")
            client.command("CONFIG", "RESETSTAT")
            client.command(*script)
            client.command("MULTI")
            client.command(*script)
            client.command("EXEC")
            counted = client.command("INFO", "errorstats", "commandstats").split(b"\r\n")
            found.append({re.sub(rb"usec\w*=[0-9.]+,", b"", line) for line in counted[1:]})
    assert found[0] == found[1]
