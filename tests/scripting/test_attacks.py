"""Hostile scripts, as scripts, as functions, and as code of a library that is loaded. After each of
them the server answers, and the script has left nothing behind."""

from collections.abc import Callable, Iterator

import pytest

from tests.harness import HoldfastServer, RawClient

pytestmark = pytest.mark.source_only

PATIENCE_S = 60.0  # some fill all the memory they are given

LOOPS = {
    "plain": "while true do end",
    "goto-less": "for i = 1, math.huge do end",
    "in pcall": "while true do pcall(function() while true do end end) end",
    "in xpcall": (
        "while true do xpcall(function() while true do end end, function() while true do end "
        "end) end"
    ),
    "in a coroutine": (
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end"
    ),
    "in wrap": "while true do pcall(coroutine.wrap(function() while true do end end)) end",
    "in a string callback": (
        "while true do pcall(string.gsub, ('a'):rep(100), 'a', function() while true do end "
        "end) end"
    ),
    "in sort": "while true do pcall(table.sort, {3, 2, 1}, function() while true do end end) end",
    "in a metamethod": (
        "local t = setmetatable({}, {__index = function(t, k) while true do end end}) while "
        "true do pcall(function() return t.x end) end"
    ),
    "tail calls": "local function f() return f() end f()",
    "mutual tail calls": (
        "local f, g function f() return g() end function g() return pcall(f) end while true "
        "do f() end"
    ),
    "calls": "while true do redis.call('ping') end",
    "failing calls": "while true do redis.pcall('nope') end",
    "caught calls": "while true do pcall(redis.call, 'nope') end",
    "patterns": "local s = ('a'):rep(30000) while true do pcall(string.find, s, '.-.-.-.-b') end",
    "greedy patterns": "local s = ('a'):rep(100000) while true do s:match('a*a*a*a*a*b') end",
    "replacing": "local s = ('a'):rep(100000) while true do s:gsub('a*a*a*b', '') end",
    "balanced": "local s = ('('):rep(100000) while true do s:find('%b()') end",
    "a long pattern": (
        "local s, p = ('a'):rep(1e5), ('.'):rep(8000) .. 'b' while true do s:find(p) end"
    ),
    "gmatch with a caret": (
        "local s = ('^'):rep(3e5) while true do for _ in s:gmatch('^*^*b') do end end"
    ),
    "a malformed pattern": (
        "local s = ('a'):rep(1e4) while true do pcall(string.find, s, 'a*a*a*a*b[') end"
    ),
    "a replacement of captures": (
        "local s, r = ('a'):rep(1e6), ('%0'):rep(1e6) while true do s:gsub('', r) end"
    ),
    "plain search": (
        "local s = ('a'):rep(3e6) while true do s:find(('a'):rep(1e6) .. 'b', 1, true) end"
    ),
    "sorting": "local t = {} for i = 1, 1e6 do t[i] = -i end while true do table.sort(t) end",
    "inserting": "while true do table.insert({1, 2, 3}, -2^31, 4) end",
    "big strings": "while true do local s = ('x'):rep(2e7) end",
    "joining": "local s = ('x'):rep(1e7) while true do local t = s .. 'y' end",
    "loaded code": "while true do loadstring('while true do end')() end",
    "loading": "local f = function() return ' ' end while true do load(f) end",
    "in what load reads from": "while true do load(function() while true do end end) end",
    "in pcall in what load reads from": (
        "while true do load(function() pcall(function() while true do end end) end) end"
    ),
    "load in load": (
        "local function f() while true do load(f) end end while true do pcall(load, f) end"
    ),
    "load in a coroutine": (
        "local f = function() return ' ' end while true do coroutine.wrap(function() "
        "while true do load(f) end end)() end"
    ),
    "load in sort": (
        "while true do table.sort({3, 2, 1}, function() load(function() while true do end end) "
        "end) end"
    ),
    "in many metamethods": (
        "local function f() while true do end end local m = {} for _, name in "
        "ipairs({'__index', '__newindex', '__call', '__concat', '__eq', '__lt', '__le', '__unm', "
        "'__add', '__tostring'}) do m[name] = f end local a, b = setmetatable({}, m), "
        "setmetatable({}, m) while true do pcall(function() return a == b end) pcall(tostring, a) "
        "pcall(function() return a .. b end) pcall(a) load(a) end"
    ),
    "cjson of nested tables": (
        "local t = {} for i = 1, 900 do t = {t, t, t} end while true do pcall(cjson.encode, t) end"
    ),
    "an error handler": (
        "while true do pcall(error, setmetatable({}, {__tostring = function() while true do "
        "end end})) end"
    ),
    "collecting": "while true do collectgarbage() end",
}


@pytest.fixture(scope="module")
def harmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HoldfastServer]:
    args = ("--lua-time-limit", "50", "--lua-max-memory", "64mb")
    with HoldfastServer(tmp_path_factory.mktemp("harmed"), *args) as server:
        yield server


class Way:
    """How a script gets to the server."""

    def __init__(self, name: str, kill: str) -> None:
        self.name, self.kill = name, kill

    def send(self, client: RawClient, script: str) -> None:
        if self.name == "EVAL":
            client.send_command("EVAL", script, 0)
            return
        code = (
            f"#!lua name=harm\nredis.register_function('harm', function(KEYS, ARGV) {script} end)"
        )
        assert client.command("FUNCTION", "LOAD", "REPLACE", code) == b"$4\r\nharm\r\n"
        client.send_command("FCALL", "harm", 0)

    def run(self, client: RawClient, script: str) -> bytes:
        self.send(client, script)
        return client.read_reply()


WAYS = [Way("EVAL", "SCRIPT"), Way("FCALL", "FUNCTION")]


@pytest.fixture(params=WAYS, ids=[way.name for way in WAYS])
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_loop_can_be_killed(harmed: HoldfastServer, way: Way, loop: str) -> None:
    with (
        RawClient.connect(harmed.port, PATIENCE_S) as victim,
        RawClient.connect(harmed.port, PATIENCE_S) as client,
    ):
        client.command("SET", "k", "before")
        way.send(victim, "redis.call('set', 'k', 'after') " + loop)
        while client.command("PING") == b"+PONG\r\n":
            pass
        assert client.command("GET", "k")[:5] == b"-BUSY"
        with RawClient.connect(harmed.port, PATIENCE_S) as late:
            assert late.command("PING")[:5] == b"-BUSY", "also who comes just now is answered"
            assert client.command(way.kill, "KILL") == b"+OK\r\n"
            assert victim.read_reply().startswith(b"-ERR Script killed by user with SCRIPT KILL...")
            assert late.command("PING") == b"+PONG\r\n"
        assert client.command("GET", "k") == b"$6\r\nbefore\r\n"
        assert way.run(victim, "return 'alive'") == b"$5\r\nalive\r\n"
        way.send(victim, "while true do end")
        while client.command(way.kill, "KILL") != b"+OK\r\n":
            pass
        assert victim.read_reply().startswith(b"-ERR Script killed"), "also the one after it"


BOMBS = {
    "string.rep": "return ('x'):rep(1e12)",
    "string.rep, doubled": "local s = 'x' while true do s = s .. s end",
    "string.rep in pcall": "local t = {} for i = 1, 1000 do t[i] = ('x'):rep(1e7) .. i end",
    "a table that grows": "local t = {} for i = 1, 1e10 do t[i] = i end",
    "tables in tables": "local t = {} while true do t = {t, {}, {}, {}} end",
    "many keys": "local t = {} for i = 1, 1e10 do t['k' .. i] = i end",
    "concat": "local t = {} for i = 1, 1e6 do t[i] = ('x'):rep(1000) end return #table.concat(t)",
    "closures": "local t = {} while true do t[#t + 1] = function() return t end end",
    "coroutines": "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
    "unpack": "return unpack({}, 1, 1e8)",
    "unpack, wide": "return unpack({}, -2^31, 2^31 - 2)",
    "unpack, all": "return {unpack({}, 1, 7999)}",
    "string.char": "return string.char(unpack({}, 1, 1e6))",
    "string.byte": "return {string.byte(('x'):rep(1e7), 1, -1)}",
    "gsub": "return #(('x'):rep(1e6):gsub('x', ('y'):rep(1000)))",
    "format": "return string.format('%99999d', 1)",
    "recursion": "local function f() return 1 + f() end return f()",
    "recursion in pcall": "local function f() return pcall(f) end return tostring(f())",
    "recursion in gsub": "local function f() return (('x'):gsub('x', f)) end return f()",
    "recursion in coroutines": "local function f() return coroutine.wrap(f)() end return f()",
    "recursion in metamethods": (
        "local t t = setmetatable({}, {__index = function(_, k) return t[k] end}) return t.x"
    ),
    "deep patterns": "return ('x'):rep(300000):find(('(.)'):rep(20000))",
    "nested patterns": "return ('x'):find(('('):rep(100000))",
    "deep tables": "local t = {} for i = 1, 1e5 do t = {t} end return t",
    "deep json": "return cjson.decode(('['):rep(1e6))",
    "deep msgpack": "return cmsgpack.unpack(('\\145'):rep(1e6))",
    "long msgpack": "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
    "long struct": "return struct.unpack('c2147483647', 'x')",
    "many arguments": (
        "local t = {} for i = 1, 1e6 do t[i] = 'x' end return redis.call('del', unpack(t))"
    ),
    "deep code": "return loadstring(('('):rep(1e5))",
    "long code": "return #tostring(loadstring('return ' .. ('1+'):rep(1e6) .. '1'))",
    "a large reply": (
        "redis.call('set', 'big', ('x'):rep(3e7)) local t = {} for i = 1, 20 do t[i] = "
        "redis.call('get', 'big') .. i end"
    ),
    "many replies": (
        "for i = 1, 1e5 do redis.call('rpush', 'l', 'x') end local t = {} for i = 1, 1e4 do "
        "t[i] = redis.call('lrange', 'l', 0, -1) end"
    ),
    "full, then calls": (
        "local t = {} pcall(function() for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end "
        "end) for i = 1, 1000 do redis.pcall('ping') redis.pcall('time') end"
    ),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_does_no_harm(harmed: HoldfastServer, way: Way, bomb: str) -> None:
    with (
        RawClient.connect(harmed.port, PATIENCE_S) as victim,
        RawClient.connect(harmed.port, PATIENCE_S) as client,
    ):
        client.command("FLUSHALL")
        way.run(victim, bomb)
        assert way.run(victim, "return 'alive'") == b"$5\r\nalive\r\n"
        assert way.run(victim, "return #('x'):rep(1e7)") == b":10000000\r\n"


# Each returns "safe", or raises.
BURGLARIES = {
    "bytecode": "return loadstring(string.dump(function() end)) == nil and 'safe'",
    "bytecode by load": (
        "local s = string.dump(function() end) return load(function() local r = s s = nil "
        "return r end) == nil and 'safe'"
    ),
    "bytecode by hand": "return loadstring('\\27LJ\\2\\10') == nil and 'safe'",
    "string metatable": "local m = getmetatable('') m.__index = {} return 'broken'",
    "string metatable by rawset": "rawset(getmetatable(''), '__index', {}) return 'broken'",
    "string metatable set": "setmetatable('', {}) return 'broken'",
    "number metatable": (
        "return getmetatable(1) == nil and pcall(setmetatable, 1, {}) == false and 'safe'"
    ),
    "function metatable": "return getmetatable(print or pcall) == nil and 'safe'",
    "nil metatable": "return getmetatable(nil) == nil and 'safe'",
    "coroutine metatable": "return getmetatable(coroutine.create(pcall)) == nil and 'safe'",
    "global metatable": "setmetatable(_G, {__index = redis}) return 'broken'",
    "a metatable of a library": "getmetatable(redis).__newindex = nil return 'broken'",
    "table.insert into a library": "table.insert(string, 'x') return 'broken'",
    "rawset into a library": "rawset(redis, 'call', 1) return 'broken'",
    "through pairs": "for k, v in pairs(redis) do redis[k] = 1 end return 'broken'",
    "through pairs' state": "local f, s = pairs(redis) s.call = 1 return 'broken'",
    "through next": "local k = next(redis) redis[k] = nil return 'broken'",
    "getfenv": "return rawget(_G, 'getfenv') == nil and rawget(_G, 'setfenv') == nil and 'safe'",
    "globals of loaded code": "loadstring('x = 1')() return 'broken'",
    "ffi": "return rawget(_G, 'ffi') == nil and rawget(_G, 'require') == nil and 'safe'",
    "ffi by a literal": (
        "local f = loadstring('return 1LL') return (not f or type(getmetatable(f())) ~= "
        "'table') and 'safe'"
    ),
    "newproxy": "return rawget(_G, 'newproxy') == nil and 'safe'",
    "__gc": (
        "setmetatable({}, {__gc = function() while true do end end}) collectgarbage() return 'safe'"
    ),
    "__tostring of an error": "error(setmetatable({}, {__tostring = function() error('x') end}))",
    "__index of what is returned": (
        "return setmetatable({}, {__index = function() error('x') end})[1] or 'safe'"
    ),
    "debug": "return rawget(_G, 'debug') == nil and 'safe'",
    "python": (
        "for k, v in pairs(_G) do if type(v) == 'userdata' then return k end end return 'safe'"
    ),
    "python in libraries": (
        "for n, l in pairs(_G) do if type(l) == 'table' and l ~= _G then for k, v in "
        "pairs(l) do if type(v) == 'userdata' and v ~= cjson.null then return k end end end "
        "end return 'safe'"
    ),
    "python in errors": (
        "for _, f in ipairs({redis.call, redis.pcall, redis.sha1hex, redis.log, "
        "redis.setresp, redis.acl_check_cmd, cjson.decode, cmsgpack.pack, struct.pack}) do "
        "for _, v in ipairs({{}, f, 1e308, coroutine.create(f), cjson.null}) do local ok, e "
        "= pcall(f, v, v) if type(e) == 'userdata' and e ~= cjson.null then return 'broken' "
        "end end end return 'safe'"
    ),
    "python of cjson.null": (
        "return pcall(function() return cjson.null.__class__ end) == false and 'safe'"
    ),
    "io": (
        "return rawget(_G, 'io') == nil and rawget(_G, 'dofile') == nil and rawget(_G, "
        "'loadfile') == nil and 'safe'"
    ),
    "a clock": "return rawget(_G, 'os') == nil and 'safe'",
    "jit": "return rawget(_G, 'jit') == nil and rawget(_G, 'package') == nil and 'safe'",
    "the collector": "collectgarbage('stop') collectgarbage('setpause', 1e9) return 'safe'",
    "KEYS of others": "return #KEYS == 0 and #ARGV == 0 and 'safe'",
    "the error handler": (
        "local handle = rawget(_G, '__redis__err__handler') return (not handle or "
        "type(handle('x')) == 'table') and 'safe'"
    ),
    "wrong levels": "error('x', 99)",
    "wrong levels below": "error('x', -99)",
}


@pytest.mark.parametrize("burglary", BURGLARIES.values(), ids=BURGLARIES)
def test_nothing_can_be_broken_into(harmed: HoldfastServer, way: Way, burglary: str) -> None:
    with RawClient.connect(harmed.port, PATIENCE_S) as client:
        reply = way.run(client, burglary)
        assert reply == b"$4\r\nsafe\r\n" or reply[:4] == b"-ERR", reply
        assert b"holdfast" not in reply
        assert b"python" not in reply
        check = "return {type(redis.call), ('x'):upper(), #string, redis.call('echo', 'y')}"
        for each in WAYS:
            assert each.run(client, check) == (
                b"*4\r\n$8\r\nfunction\r\n$1\r\nX\r\n:0\r\n$1\r\ny\r\n"
            )


# Where a library's code runs there is hardly anything; texts have methods, though.
WHILE_LOADING = {
    "loop": "while true do end",
    "tail calls": "local function f() return f() end f()",
    "loop in a string callback": "('a'):gsub('a', function() while true do end end)",
    "patterns": "local s = ('a'):rep(30000) while true do s:find('.-.-.-.-b') end",
    "one pattern": "('a'):rep(30000):find('.-.-.-.-b')",
    "balanced": "local s = ('('):rep(100000) while true do s:find('%b()') end",
    "big strings": "while true do local s = ('x'):rep(2e7) end",
    "registering": "for i = 1, 1e9 do redis.register_function('f' .. i, function() end) end",
    "failing": "redis.register_function('f', function() end) redis.register_function('f')",
    "string.rep": "local s = ('x'):rep(1e12)",
    "string.rep, doubled": "local s = 'x' while true do s = s .. s end",
    "a table that grows": "local t = {} for i = 1, 1e10 do t[i] = i end",
    "closures": "local t = {} while true do t[#t + 1] = function() return t end end",
    "recursion": "local function f() return 1 + f() end f()",
    "recursion in gsub": "local function f() return (('x'):gsub('x', f)) end f()",
    "deep patterns": "('x'):rep(300000):find(('(.)'):rep(20000))",
    "string.byte": "local t = {('x'):rep(1e7):byte(1, -1)}",
    "format": "local s = ('%99999d'):format(1)",
    "bytecode": "local s = ('').dump(function() end) s()",
    "a long name": "redis.register_function(('x'):rep(1e8), function() end)",
    "string metatable": "('').foo = 1",
    "globals": "redis = nil",
    "globals in a function": "local function f() x = 1 end f()",
    "redis": "redis.register_function = nil",
    "calls": "redis.call('set', 'k', 'v')",
    "python": "redis.log.__class__ = 1",
    "python in errors": "redis.log(1, redis.register_function)",
    "ffi": "local x = 1LL .. ffi",
    "getfenv": "setfenv(1, {})",
    "newproxy": "newproxy(true)",
    "__gc": "local t = {__gc = function() while true do end end} setmetatable({}, t)",
    "unpack": "unpack({}, 1, 1e8)",
    "debug": "debug.sethook()",
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("code", WHILE_LOADING.values(), ids=WHILE_LOADING)
def test_loading_does_no_harm(harmed: HoldfastServer, code: str) -> None:
    with RawClient.connect(harmed.port, PATIENCE_S) as client:
        client.command("FUNCTION", "FLUSH")
        kept = "#!lua name=kept\nredis.register_function('kept', function() return 'safe' end)"
        assert client.command("FUNCTION", "LOAD", kept) == b"$4\r\nkept\r\n"
        reply = client.command("FUNCTION", "LOAD", f"#!lua name=harm\n{code}")
        assert reply[:4] == b"-ERR", reply
        assert b"holdfast" not in reply
        assert client.command("FCALL", "kept", 0) == b"$4\r\nsafe\r\n"
        assert client.command("FCALL", "f", 0) == b"-ERR Function not found\r\n"
        for way in WAYS:
            assert way.run(client, "return #('x'):rep(1e7)") == b":10000000\r\n"


def test_a_script_leaves_nothing_to_the_next_one(client: RawClient) -> None:
    client.command("EVAL", "local x = 1 redis.setresp(3) return x", 1, "secret", "secret")
    assert client.command("EVAL", "return {#KEYS, #ARGV}", 0) == b"*2\r\n:0\r\n:0\r\n"
    assert client.command("EVAL", "return {false}", 0) == b"*1\r\n$-1\r\n"


def test_scripts_and_functions_leave_nothing_to_each_other(client: RawClient) -> None:
    head = "#!lua name=lib\nlocal kept = 0\nredis.register_function('f', function() "
    body = "redis.setresp(3) kept = kept + 1 return {kept, rawget(_G, 'KEYS') == nil, false}"
    client.command("FUNCTION", "LOAD", head + body + " end)")
    client.command("EVAL", "return KEYS", 1, "secret", "secret")
    assert client.command("FCALL", "f", 1, "other") == b"*3\r\n:1\r\n:1\r\n:0\r\n"
    script = "return {#KEYS, #ARGV, redis.call('get', 'none') == false}"
    assert client.command("EVAL", script, 0) == b"*3\r\n:0\r\n:0\r\n:1\r\n"
    assert client.command("FCALL", "f", 0)[:8] == b"*3\r\n:2\r\n"


def test_a_log_line_of_a_script_is_one_line_and_not_long(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server()
    with RawClient.connect(server.port) as client:
        forged = "a\\n123:M 01 Jan 2026 00:00:00.000 * forged\\r\\27[2J"
        client.command("EVAL", f"redis.log(redis.LOG_WARNING, '{forged}', ('x'):rep(1e7))", 0)
        client.command("EVAL", "redis.log(redis.LOG_WARNING, '\\226\\128\\168 é \\255')", 0)
    lines = [line for line in server.stderr.splitlines() if "script: " in line]
    assert len(lines) == 2
    assert r"a\n123:M 01 Jan 2026 00:00:00.000 * forged\r\x1b[2J xxx" in lines[0]
    assert lines[0].endswith("xxx [the first 1024 of 10000047 bytes]")
    assert lines[1].endswith(r"\u2028 é \xff")


def test_shutdown_nosave_ends_a_script(start_server: Callable[..., HoldfastServer]) -> None:
    server = start_server("--lua-time-limit", "50")
    with RawClient.connect(server.port) as victim, RawClient.connect(server.port) as client:
        client.command("SET", "k", "before")
        victim.send_command("EVAL", "redis.call('set', 'k', 'after') while true do end", 0)
        while client.command("PING") == b"+PONG\r\n":
            pass
        assert client.command("SHUTDOWN")[:5] == b"-BUSY"
        client.send_command("SHUTDOWN", "NOSAVE")
        client.read_until_closed()
    server.kill()
    server.start()
    with RawClient.connect(server.port) as client:
        assert client.command("GET", "k") == b"$6\r\nbefore\r\n"


@pytest.mark.parametrize("loop", ["while true do end", LOOPS["loading"]], ids=["plain", "loading"])
def test_sigterm_ends_whatever_runs(start_server: Callable[..., HoldfastServer], loop: str) -> None:
    """Also the second script of its kind, and where no script is ever too slow."""
    server = start_server("--lua-time-limit", "0", "--lua-hard-time-limit", "50")
    with RawClient.connect(server.port) as victim:
        assert b"lua-hard-time-limit" in victim.command("EVAL", loop, 0)
        victim.command("CONFIG", "SET", "lua-hard-time-limit", "0")
        victim.send_command("EVAL", f"redis.log(redis.LOG_WARNING, 'begun') {loop}", 0)
        while "begun" not in server.stderr:  # a signal in the middle, not before
            pass
        assert server.terminate() == 0


SLOW_TO_COMPILE = "local a = " + "a or " * 200_000 + "a"


def test_a_script_that_takes_too_long_to_compile_is_refused(
    start_server: Callable[..., HoldfastServer],
) -> None:
    server = start_server("--lua-time-limit", "50")
    with RawClient.connect(server.port) as client:
        assert client.command("EVAL", SLOW_TO_COMPILE, 0) == (
            b"-ERR Error compiling script (new function): it takes longer than lua-time-limit\r\n"
        )
        assert b"FUNCTION LOAD timeout" in client.command(
            "FUNCTION", "LOAD", f"#!lua name=slow\n{SLOW_TO_COMPILE}"
        )
        assert client.command("EVAL", "return 'alive'", 0) == b"$5\r\nalive\r\n"


def test_compiling_inside_a_script_can_be_killed(harmed: HoldfastServer, way: Way) -> None:
    script = "local s = 'local a = ' .. ('a or '):rep(2e5) .. 'a' while true do loadstring(s) end"
    with (
        RawClient.connect(harmed.port, PATIENCE_S) as victim,
        RawClient.connect(harmed.port, PATIENCE_S) as client,
    ):
        way.send(victim, script)
        while client.command(way.kill, "KILL") != b"+OK\r\n":
            pass
        assert victim.read_reply().startswith(b"-ERR Script killed by user")


def test_a_hard_limit_ends_a_script_by_itself(start_server: Callable[..., HoldfastServer]) -> None:
    server = start_server("--lua-hard-time-limit", "50")
    with RawClient.connect(server.port) as client:
        script = "redis.call('set', 'k', 'v') while true do end"
        assert b"lua-hard-time-limit" in client.command("EVAL", script, 0)
        assert client.command("GET", "k") == b"$-1\r\n"
