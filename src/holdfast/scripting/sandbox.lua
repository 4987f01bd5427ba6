-- The world that scripts see, and the door to it. Run once, in a fresh Lua state, with a table of
-- the Python functions that it may call; returns the functions that Python calls. Scripts get
-- closures only: what is captured here (Python's functions, debug, the real tables) cannot be
-- reached from them.
--
-- Python's functions never raise: what comes out of one as an exception would be an object.

local python, libraries = ...

local raw = {
  pcall = pcall, xpcall = xpcall, error = error, load = load, pairs = pairs, next = next,
  rawset = rawset, rawget = rawget, setmetatable = setmetatable, getmetatable = getmetatable,
  insert = table.insert, resume = coroutine.resume, create = coroutine.create,
  collect = collectgarbage, concat = table.concat,
}
local error, type, select, unpack, tostring, rawget = error, type, select, unpack, tostring, rawget
local getinfo, sethook, setmetatable = debug.getinfo, debug.sethook, setmetatable
local clock, count, used_kb = os.clock, collectgarbage, gcinfo
local call_engine, tick = python.call, python.tick
local MOST_VALUES = 200 -- returned or passed at once; more go in tables

-- A script that has to end: everything that could catch the error raises it again.
local DEAD = {}
local dead, dead_source, dead_line -- why, and where
local soft_limit_kb = 0 -- above it no call into Python begins: there, an allocation must not fail

local fail, bad_argument, repaired, frame = libraries.errors(debug, string)

local function die(why)
  local info = frame()
  dead, dead_source, dead_line = why, info and info.source, info and info.currentline
  sethook(function() -- whatever catches it gets no further than a line
    if getinfo(2, "S").source ~= "=holdfast" then error(DEAD, 0) end
  end, "l")
  error(DEAD, 0)
end

-- The hook: called every so many instructions, of fewer of them where they take long (as on large
-- texts, or where much memory is in use). It asks Python no more than once a millisecond.
local STEP, SHORT_STEP = 250, 20
local last_look = 0
local function watch()
  local now = clock()
  local took = now - last_look
  if took < 0.001 then return end
  last_look = now
  if tick() then die(true) end -- Python knows why: a text would need memory
  sethook(watch, "", took > 0.01 and SHORT_STEP or STEP)
end

local function check_memory()
  if used_kb() > soft_limit_kb then
    count("collect")
    if used_kb() > soft_limit_kb then error("not enough memory", 0) end
  end
end

-- What is called from C, and calls C that calls it, takes of C's stack, which has no guard.
local DEEPEST_C = 150
local depth = 0

local function unnested(before, ...)
  depth = before
  return ...
end

local function nested(body)
  return function(...)
    local before = depth
    if before >= DEEPEST_C then error("C stack overflow", 2) end
    depth = before + 1
    return unnested(before, body(...))
  end
end

-- Python's functions that give back texts: where memory is short they are not begun.
for name in ("acl_check find log pack sha1hex strtod unpack"):gmatch("%S+") do
  local body = python[name]
  python[name] = function(...)
    if used_kb() > soft_limit_kb then check_memory() end
    return body(...)
  end
end

-- -- read-only tables --------------------------------------------------------------------------

local READ_ONLY = "Attempt to modify a readonly table"
local behind = setmetatable({}, { __mode = "k" }) -- what a proxy stands for

local function refuse() error(READ_ONLY, 2) end

local nothing = setmetatable({}, { __newindex = refuse })
behind[nothing] = {}

local function protect(content)
  local proxy = setmetatable({}, { __index = content, __newindex = refuse, __metatable = nothing })
  behind[proxy] = content
  return proxy
end
setmetatable(nothing, { __newindex = refuse, __metatable = nothing })

local function iterate(proxy)
  local content = behind[proxy]
  return function(_, key) return raw.next(content, key) end, proxy, nil
end

-- -- catching errors ---------------------------------------------------------------------------

local function presentable(problem)
  if type(problem) == "userdata" then return "internal error" end
  return problem
end

local function caught(ok, ...)
  if dead then error(DEAD, 0) end
  if ok then return ok, ... end
  local problem = ...
  if type(problem) == "table" and type(rawget(problem, "err")) == "string" then
    problem = rawget(problem, "err")
  end
  return false, presentable(problem)
end

local function resumed(routine, ok, ...)
  if dead then error(DEAD, 0) end
  if ok then return ok, ... end
  return false, repaired(presentable((...)), routine)
end

local function catch(problem)
  if problem == DEAD then return problem end
  return repaired(problem)
end
local function caught_here(body, ...) return raw.xpcall(body, catch, ...) end

local function unwrapped(ok, ...)
  if ok then return ... end
  local problem = ...
  if type(problem) == "string" then fail(problem) end
  error(problem, 0)
end

local function err_handler(problem)
  if problem == DEAD then return problem end
  if type(problem) ~= "table" then
    problem = { err = "ERR " .. tostring(repaired(presentable(problem))) }
  elseif type(rawget(problem, "err")) ~= "string" then
    problem = { err = "ERR " .. tostring(problem) } -- redis-server 7.0 crashes
  end
  local info = frame()
  if info then problem.source, problem.line = info.source, info.currentline end
  return problem
end

-- -- redis.* -----------------------------------------------------------------------------------

local redis = {}

local function raise(message)
  error({ err = message, ignore_error_stats_update = true }, 0)
end

-- What the engine answered: a plain value, or with a kind what to make of it.
local STATUS, ARRAY, ERROR, KILLED, LACK = 1, 2, 3, 4, 5

local function built(value, kind, ...)
  if kind == STATUS then return { ok = value } end
  if kind == ARRAY then return { ... } end
  if kind == ERROR then return { err = value, ignore_error_stats_update = true } end
  if kind == LACK then error("not enough memory", 0) end
  die(true)
end

local function answered(value, kind, ...)
  if kind == nil then return value end
  return built(value, kind, ...)
end

local function answered_or_raised(value, kind, ...)
  if kind == nil then return value end
  if kind == STATUS then return { ok = value } end
  if kind == ERROR then raise(value) end
  return built(value, kind, ...)
end

-- On the way to Python the sign of a zero gets lost.
local function with_signs(...)
  local all, count = { ... }, select("#", ...)
  for index = 2, count do
    if all[index] == 0 and 1 / all[index] < 0 then all[index] = "-0" end
  end
  return all
end

-- More than a few arguments, or a negative zero among them.
local function ask(...)
  local all, count = with_signs(...), select("#", ...)
  if count > MOST_VALUES then return python.call_many(all) end
  return call_engine(unpack(all, 1, count))
end

function redis.call(...)
  if used_kb() > soft_limit_kb then check_memory() end
  local _, a, b, c, more = ...
  if more == nil and (a ~= 0 or 1 / a > 0) and (b ~= 0 or 1 / b > 0) and (c ~= 0 or 1 / c > 0) then
    return answered_or_raised(call_engine(...))
  end
  return answered_or_raised(ask(...))
end

function redis.pcall(...)
  if used_kb() > soft_limit_kb then check_memory() end
  local _, a, b, c, more = ...
  if more == nil and (a ~= 0 or 1 / a > 0) and (b ~= 0 or 1 / b > 0) and (c ~= 0 or 1 / c > 0) then
    return answered(call_engine(...))
  end
  return answered(ask(...))
end

-- What C takes for an end, when it copies a text.
local function c_string(text) return (tostring(text):match("^[^%z]*")) end

local function reply_table(field, ...)
  local text = ...
  if select("#", ...) ~= 1 or type(text) ~= "string" then
    return { err = "ERR wrong number or type of arguments" }
  end
  return { [field] = text }
end

function redis.status_reply(...) return reply_table("ok", ...) end

function redis.error_reply(...)
  local reply = reply_table("err", ...)
  if type((...)) == "string" and select("#", ...) == 1 then
    local whole = c_string(reply.err)
    local code, text = whole:match("^%-?([^ ]*) (.*)$")
    if not code then code, text = "ERR", whole:match("^%-?(.*)$") end
    reply.err = code .. " " .. text:match("^[\r\n]*(.-)[\r\n]*$")
  end
  return reply
end

-- How luaL_checknumber and the like see an argument.
local function as_text(value)
  local kind = type(value)
  if kind == "number" then return tostring(value) end
  return kind == "string" and value or ""
end

function redis.sha1hex(...)
  if select("#", ...) ~= 1 then raise("ERR wrong number of arguments") end
  check_memory()
  return python.sha1hex(as_text((...)))
end

function redis.log(level, ...)
  if select("#", ...) < 1 then raise("ERR redis.log() requires two arguments or more.") end
  if type(level) ~= "number" then
    raise("ERR First argument must be a number (log level).")
  end
  if level < 0 or level >= 4 then raise("ERR Invalid debug level.") end
  local words = {}
  for index = 1, select("#", ...) do words[index] = as_text((select(index, ...))) end
  check_memory()
  python.log(level, raw.concat(words, " "))
end

function redis.setresp(...)
  if select("#", ...) ~= 1 then raise("ERR redis.setresp() requires one argument.") end
  local version = tonumber((...))
  if version ~= 2 and version ~= 3 then raise("ERR RESP version must be 2 or 3.") end
  python.setresp(version)
end

function redis.set_repl(...)
  if select("#", ...) ~= 1 then raise("ERR redis.set_repl() requires two arguments.") end
  local flags = tonumber((...)) or 0
  if flags % 1 ~= 0 or flags < 0 or flags > 3 then
    raise("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
  end
end

function redis.replicate_commands() return true end
function redis.breakpoint() return false end
function redis.debug() end

function redis.acl_check_cmd(...)
  check_memory()
  return answered_or_raised(python.acl_check(...))
end

redis.REDIS_VERSION, redis.REDIS_VERSION_NUM = python.version, python.version_number
redis.ACTIVE_ACTIVE = python.active_active -- not in Redis, and not on a server of its own
redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3
redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_ALL = 0, 1, 2, 2, 3

-- -- what Lua brings along -----------------------------------------------------------------------

local function only(library, names)
  local kept = {}
  for name in names:gmatch("%S+") do kept[name] = library[name] end
  return kept
end

local G = only(_G, "_VERSION error gcinfo getmetatable rawequal select tonumber tostring type unpack")
local env_meta = { __index = G, __newindex = refuse, __metatable = nothing }
local ENV = setmetatable({}, env_meta)
behind[ENV] = G
local function keep(...) return ... end -- see tails.py
local strict = {
  __index = function(_, name)
    if name == "__keep" then return keep end
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
}
setmetatable(G, strict)

function G.assert(...)
  local holds, message = ...
  if holds then return ... end
  local count = select("#", ...)
  if count == 0 then bad_argument(1, "value expected") end
  if count == 1 or message == nil then message = "assertion failed!" end
  if type(message) ~= "string" and type(message) ~= "number" then
    bad_argument(2, "string expected, got " .. type(message))
  end
  fail(c_string(message))
end

function G.pcall(...)
  if select("#", ...) == 0 then return false, "attempt to call a boolean value" end
  return caught(unnested(depth, caught_here(...)))
end
-- The handler runs where the error was raised, and no hook would run in one that was raised in a
-- hook.
function G.xpcall(...)
  if select("#", ...) < 2 then bad_argument(2, "value expected") end
  local body, handler = ...
  return resumed(nil, unnested(depth, raw.xpcall(body, function(problem)
    if dead then return DEAD end
    return handler(repaired(presentable(problem)))
  end)))
end

-- So that a missing argument is not taken for a nil.
local function present(kind, ...)
  if select("#", ...) == 0 then bad_argument(1, kind .. " expected, got no value") end
  return ...
end

function G.pairs(...)
  if behind[(...)] then return iterate((...)) end
  return raw.pairs(present("table", ...))
end
function G.ipairs(...) return ipairs(present("table", ...)) end
function G.next(...)
  local subject, key = present("table", ...)
  return raw.next(behind[subject] or subject, key)
end
function G.rawget(...)
  local subject, key = present("table", ...)
  if behind[subject] then subject = behind[subject] end
  return rawget(subject, key)
end
function G.rawset(...)
  if behind[(...)] then error(READ_ONLY, 0) end
  return raw.rawset(...)
end
function G.setmetatable(...)
  if behind[(...)] then error(READ_ONLY, 0) end
  return raw.setmetatable(present("table", ...))
end

-- Scripts must not be able to stop the collector.
function G.collectgarbage(what, argument)
  if what == "count" then return count("count") end
  if what == nil or what == "collect" or what == "step" then return raw.collect(what, argument) end
  return 0
end

-- Text only: there is no check of bytecode that could be relied upon.
function G.loadstring(...)
  local text, name = present("string", ...)
  if type(text) ~= "string" and type(text) ~= "number" then
    bad_argument(1, "string expected, got " .. type(text))
  end
  return raw.load(tostring(text), name or text, "t", ENV)
end
G.load = nested(function(...)
  local pieces, name = present("function", ...)
  if type(pieces) ~= "function" then bad_argument(1, "function expected, got " .. type(pieces)) end
  return raw.load(pieces, name or "=(load)", "t", ENV)
end)

local routines = only(coroutine, "status running yield")
local resume = nested(raw.resume)
function routines.create(body)
  if type(body) ~= "function" then bad_argument(1, "Lua function expected") end
  return raw.create(body)
end
function routines.resume(...)
  local routine = ...
  if type(routine) ~= "thread" then bad_argument(1, "coroutine expected") end
  return resumed(routine, resume(...))
end
function routines.wrap(body)
  if type(body) ~= "function" then bad_argument(1, "Lua function expected") end
  local routine = raw.create(body)
  return function(...) return unwrapped(resumed(routine, resume(routine, ...))) end
end

local tables = only(table, "concat maxn")
local sort = nested(table.sort)
function tables.sort(...)
  local list = present("table", ...)
  if type(list) == "table" and #list > 10000 then watch() end
  return sort(...)
end
local foreach, foreachi = nested(table.foreach), nested(table.foreachi)
function tables.foreach(...) return foreach(present("table", ...)) end
function tables.foreachi(...) return foreachi(present("table", ...)) end
function tables.insert(...)
  if behind[present("table", ...)] then error(READ_ONLY, 0) end
  return raw.insert(...)
end
local remove, getn = table.remove, table.getn
function tables.remove(...) return remove(present("table", ...)) end
function tables.getn(...) return getn(present("table", ...)) end
function tables.setn() error("'setn' is obsolete", 2) end

local maths = only(math, [[abs acos asin atan atan2 cos cosh exp fmod frexp huge ldexp
  log log10 max min modf pi pow sin sinh sqrt tan tanh]])
maths.mod = math.fmod
-- LuaJIT's do not look whether they were given anything, and read what is left on the stack.
local floor, ceil = math.floor, math.ceil
function maths.floor(...) return floor(present("number", ...)) end
function maths.ceil(...) return ceil(present("number", ...)) end
local function number_given(...)
  local value = present("number", ...)
  return tonumber(value) or bad_argument(1, "number expected, got " .. type(value))
end
function maths.deg(...) return number_given(...) / (math.pi / 180) end
function maths.rad(...) return number_given(...) * (math.pi / 180) end

-- drand48, from its standard seed: the same numbers after every start, as in Redis.
local random_high, random_low = 0x1234ABCD, 0x330E
local function seed(number)
  random_high, random_low = number % 2 ^ 32, 0x330E
end
local function random31()
  -- 48 bits as 32 and 16, times 0x5DEECE66D as 0x5DEEC and 0xE66D: no product exceeds 2^53.
  local product = random_low * 0xE66D + 0xB
  local high = math.floor(product / 65536) + random_low * 0x5DEEC + random_high * 0xE66D
  random_high = (high + 65536 * (random_high * 0x5DEEC % 65536)) % 2 ^ 32
  random_low = product % 65536
  return math.floor(random_high / 2)
end
local function whole(number, value)
  local found = tonumber(value)
  if not found then bad_argument(number, "number expected, got " .. type(value)) end
  return found < 0 and math.ceil(found) or math.floor(found)
end
function maths.random(...)
  local r = (random31() % 2147483647) / 2147483647
  local count, low, high = select("#", ...), ...
  if count == 0 then return r end
  if count > 2 then fail("wrong number of arguments") end
  low, high = whole(1, low), count == 2 and whole(2, high)
  if not high then low, high = 1, low end
  if low > high then bad_argument(count, "interval is empty") end
  return math.floor(r * (high - low + 1)) + low
end
function maths.randomseed(...) seed(whole(1, present("number", ...))) end

python.fail, python.watch, python.null = fail, watch, newproxy(false)
python.bad_argument, python.nested, python.getinfo = bad_argument, nested, getinfo
local strings = libraries.strings(string, python)
local text_meta = raw.getmetatable("")
text_meta.__index = strings
text_meta.__metatable = nothing

G._G = ENV
G.redis, G.string, G.table, G.math = protect(redis), protect(strings), protect(tables), protect(maths)
G.coroutine = protect(routines)
G.bit = protect(only(bit, "arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex"))
for name in ("cjson cmsgpack struct"):gmatch("%S+") do
  if libraries[name] then G[name] = protect(libraries[name](python)) end
end
if python.for_functions then
  redis.breakpoint, redis.debug, redis.replicate_commands = nil, nil, nil
else
  G.__redis__err__handler = err_handler
end

-- While the code of a library runs it sees nothing but what LOADING has.
local LOADING, begin_library, end_library = libraries.functions(redis, protect, strict, raise)

-- -- what a script returns -----------------------------------------------------------------------

-- Flat: a string or number is itself; `true` announces a code.
local ARRAY_OF, NIL, BOOLEAN, AN_ERROR, A_STATUS, DOUBLE, MAP, SET, BIG, VERBATIM = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local DEEPEST = 200 -- Redis: as far as its stack goes, 7,995

local function flatten(value, into, size, depth)
  local kind = type(value)
  if kind == "string" or kind == "number" then
    into[size + 1] = value
    return size + 1
  end
  into[size + 1] = true
  if kind == "boolean" then
    into[size + 2], into[size + 3] = BOOLEAN, value and 1 or 0
    return size + 3
  elseif kind ~= "table" then
    into[size + 2] = NIL
    return size + 2
  elseif depth > DEEPEST then
    into[size + 2], into[size + 3] = AN_ERROR, "ERR reached lua stack limit"
    return size + 3
  end
  value = behind[value] or value
  local special = rawget(value, "err")
  if type(special) == "string" then
    into[size + 2], into[size + 3] = AN_ERROR, special
    return size + 3
  end
  special = rawget(value, "ok")
  if type(special) == "string" then
    into[size + 2], into[size + 3] = A_STATUS, special
    return size + 3
  end
  special = rawget(value, "double")
  if type(special) == "number" then
    into[size + 2], into[size + 3] = DOUBLE, special == 0 and 1 / special < 0 and "-0" or special
    return size + 3
  end
  special = rawget(value, "map")
  if type(special) == "table" then
    into[size + 2] = MAP
    local at, pairs_count = size + 3, 0
    size = at
    for key, item in raw.next, special do
      size = flatten(key, into, size, depth + 1)
      size = flatten(item, into, size, depth + 1)
      pairs_count = pairs_count + 1
    end
    into[at] = pairs_count
    return size
  end
  special = rawget(value, "set")
  if type(special) == "table" then
    into[size + 2] = SET
    local at, members = size + 3, 0
    size = at
    for key in raw.next, special do
      size = flatten(key, into, size, depth + 1)
      members = members + 1
    end
    into[at] = members
    return size
  end
  special = rawget(value, "big_number")
  if type(special) == "string" then
    into[size + 2], into[size + 3] = BIG, special
    return size + 3
  end
  special = rawget(value, "verbatim_string")
  if type(special) == "table" then
    local format, text = rawget(special, "format"), rawget(special, "string")
    if type(format) == "string" and type(text) == "string" then
      into[size + 2], into[size + 3], into[size + 4] = VERBATIM, format, text
      return size + 4
    end
  end
  into[size + 2] = ARRAY_OF
  local at, length = size + 3, 0
  size = at
  while true do
    local item = rawget(value, length + 1)
    if item == nil then break end
    length = length + 1
    size = flatten(item, into, size, depth + 1)
  end
  into[at] = length
  return size
end

-- First whether it went well, then whether the rest is flat values or a table of them.
local function finished(ok, value)
  depth = 0
  if ok then
    local kind = type(value)
    if kind ~= "table" and kind ~= "boolean" then
      if kind == "string" or kind == "number" then return 0, value end
      return 0, nil
    end
    local flat = {}
    local size = flatten(value, flat, 0, 1)
    if size > MOST_VALUES then return 1, flat end
    return 2, unpack(flat, 1, size)
  end
  if dead then
    sethook(watch, "", STEP)
    local why = dead
    dead = nil
    return 4, why, dead_source, dead_line
  end
  if type(value) ~= "table" then return 3, "ERR " .. tostring(presentable(value)), nil, nil end
  return 3, value.err, value.source, value.line
end

local function finished_safely(ok, ...)
  if ok then return ... end
  sethook(watch, "", STEP)
  dead = nil
  local problem = ...
  return 3, "ERR " .. tostring(presentable(problem)), nil, nil
end

local function start(script, keys, args, as_arguments)
  if as_arguments then
    return finished(raw.xpcall(script, err_handler, keys, args))
  end
  raw.rawset(G, "KEYS", keys)
  raw.rawset(G, "ARGV", args)
  return finished(raw.xpcall(script, err_handler))
end

local function split(script, as_arguments, key_count, ...)
  if key_count == 0 then return start(script, {}, { ... }, as_arguments) end
  if key_count == 1 then return start(script, { (...) }, { select(2, ...) }, as_arguments) end
  local all = { ... }
  local keys, args = {}, {}
  for index = 1, key_count do keys[index] = all[index] end
  for index = key_count + 1, #all do args[index - key_count] = all[index] end
  return start(script, keys, args, as_arguments)
end

local function load_library(code)
  begin_library()
  env_meta.__index = LOADING
  local ok, problem = raw.xpcall(code, err_handler)
  return finished(ok, not ok and problem or nil)
end

local function loaded(ending, ...)
  local functions = end_library()
  env_meta.__index = G
  if ending == 0 then return 0, functions end
  return ending, ...
end

sethook(watch, "", STEP)
raw.collect("setpause", 150)

return {
  run = function(...) return finished_safely(raw.pcall(split, ...)) end,
  run_tables = function(...) return finished_safely(raw.pcall(start, ...)) end,
  load_library = function(code) return loaded(finished_safely(raw.pcall(load_library, code))) end,
  compile = function(text, name)
    return raw.load(text, name, "t", ENV)
  end,
  collect = function() raw.pcall(raw.collect) end,
  limit_memory = function(kilobytes) soft_limit_kb = kilobytes end,
}
