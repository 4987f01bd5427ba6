-- The sandbox: the globals that scripts see, and the functions with which Python runs scripts. This file is
-- run once in a new Lua state. Its arguments are a table of the Python functions that it may call, and the
-- other Lua files of this folder as functions. It returns the functions that Python calls. Scripts get
-- closures only, so they cannot reach the values that a closure uses: Python functions, debug, the real
-- tables.
--
-- The Python functions never raise, because an exception would reach Lua as a Python object. Our Lua files
-- also share their common functions through the table `python`.

local python, libraries = ...

local error, type, select, unpack, tostring, rawget = error, type, select, unpack, tostring, rawget
local raw_pcall, raw_xpcall, raw_load, collect = pcall, xpcall, load, collectgarbage
local getinfo, sethook, setmetatable = debug.getinfo, debug.sethook, setmetatable
local clock, used_kb, limit_kb = os.clock, gcinfo, python.limit_kb
local tick = python.tick
local MOST_VALUES = 200 -- returned as several values; more are returned in a table

-- -- ending a script ---------------------------------------------------------------------------

-- The error that ends a script. Each function that can catch errors raises this error again. It has no text,
-- because a text would need memory; Python knows the reason.
local DEAD = {}
local dead, dead_source, dead_line -- whether a script must end, and where it was

-- Returns its arguments, the results of a call that catches errors; raises if the script has to end.
local function survived(...)
  if dead then error(DEAD, 0) end
  return ...
end

local fail, bad_argument, repaired, frame = libraries.errors(debug, string)

local function die()
  local info = frame()
  dead, dead_source, dead_line = true, info and info.source, info and info.currentline
  sethook(function() -- code that catches the error is ended at its next line
    if getinfo(2, "S").source ~= "=holdfast" then error(DEAD, 0) end
  end, "l")
  error(DEAD, 0)
end

-- Checks the clock, and asks Python at most once in a millisecond whether the script must end. Functions
-- that may take long call it first.
local STEP, SHORT_STEP = 500, 20
local last_look = 0
local on_step
local function watch()
  local now = clock()
  local took = now - last_look
  if took < 0.001 then return end
  last_look = now
  if tick() then die() end
  sethook(on_step, "", took > 0.01 and SHORT_STEP or STEP)
end

-- The hook: called after STEP instructions, or after SHORT_STEP while instructions are slow, as on large
-- texts. To read the clock costs as much as a hundred instructions. While Lua has little memory in use, no
-- instruction can be slow; then only every fourth call reads the clock.
local LITTLE_KB, SELDOM = 4096, 4
local steps = 0
function on_step()
  steps = steps + 1
  if steps >= SELDOM or used_kb() > LITTLE_KB then
    steps = 0
    watch()
  end
end

-- Sets the hook before each script, because the previous script may have left another one.
local function begin() sethook(on_step, "", STEP) end

-- Raises an error if memory is above the limit. No call into Python may begin then, because an allocation of
-- Lua that fails inside such a call cannot be handled.
local function check_memory()
  if used_kb() > limit_kb then
    collect("collect")
    if used_kb() > limit_kb then error("not enough memory", 0) end
  end
end

for name in ("acl_check find log pack sha1hex strtod unpack"):gmatch("%S+") do
  local body = python[name]
  python[name] = function(...)
    if used_kb() > limit_kb then check_memory() end
    return body(...)
  end
end

-- Limits the depth of functions that C calls and that call C again. Each level uses C's stack, and nothing
-- protects that stack from an overflow.
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

-- -- read-only tables --------------------------------------------------------------------------

local READ_ONLY = "Attempt to modify a readonly table"
local behind = setmetatable({}, { __mode = "k" }) -- the table behind each read-only proxy

local function refuse() error(READ_ONLY, 2) end

local nothing = setmetatable({}, { __newindex = refuse })
behind[nothing] = {}

local function protect(content)
  local proxy = setmetatable({}, { __index = content, __newindex = refuse, __metatable = nothing })
  behind[proxy] = content
  return proxy
end
setmetatable(nothing, { __newindex = refuse, __metatable = nothing })

-- -- globals -----------------------------------------------------------------------------------

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

python.fail, python.bad_argument, python.getinfo, python.null = fail, bad_argument, getinfo, newproxy(false)
python.die, python.watch, python.nested, python.check_memory = die, watch, nested, check_memory
python.only, python.READ_ONLY, python.survived = only, READ_ONLY, survived
-- The text up to its first NUL, where a C string ends.
function python.c_string(text) return (tostring(text):match("^[^%z]*")) end
function python.presentable(problem)
  if type(problem) == "userdata" and problem ~= python.null then return "internal error" end
  return problem
end

local redis, raise = libraries.redis(python)
local tables, maths, compile = libraries.base(python, G, ENV, behind)
local strings = libraries.strings(string, python)
local text_meta = getmetatable("")
text_meta.__index = strings
text_meta.__metatable = nothing

G._G = ENV
G.redis, G.string, G.table, G.math = protect(redis), protect(strings), protect(tables), protect(maths)
G.bit = protect(only(bit, "arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex"))
python.pairs_in_order = libraries.order()
for name in ("cjson cmsgpack struct"):gmatch("%S+") do
  G[name] = protect(libraries[name](python))
end

-- -- catching errors ---------------------------------------------------------------------------

local presentable = python.presentable

local function caught(ok, ...)
  survived()
  if ok then return ok, ... end
  local problem = ...
  if type(problem) == "table" and type(rawget(problem, "err")) == "string" then
    problem = rawget(problem, "err")
  end
  return false, presentable(problem)
end

local function resumed(routine, ok, ...)
  survived()
  if ok then return ok, ... end
  return false, repaired(presentable((...)), routine)
end

local function catch(problem)
  if problem == DEAD then return problem end
  return repaired(presentable(problem))
end
local function caught_here(body, ...) return raw_xpcall(body, catch, ...) end

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
    problem = { err = "ERR " .. tostring(problem) } -- redis-server 7.0 crashes here
  end
  local info = frame()
  if info then problem.source, problem.line = info.source, info.currentline end
  return problem
end
if not python.for_functions then G.__redis__err__handler = err_handler end

function G.pcall(...)
  if select("#", ...) == 0 then return false, "attempt to call a boolean value" end
  return caught(unnested(depth, caught_here(...)))
end
-- The error handler of a script runs after the frames below xpcall are gone. If it ran earlier, it could run
-- inside the hook: there, too, an error may be raised, such as for lack of stack. No hook runs inside a hook,
-- so nothing could end a loop in the handler. A handler that fails handles its own error, as in Lua 5.1.
local MOST_HANDLERS = 221
local function handled(handler, ok, ...)
  survived()
  if ok then return ok, ... end
  local problem = ...
  for _ = 1, MOST_HANDLERS do
    ok, problem = survived(raw_xpcall(handler, catch, problem))
    if ok then return false, problem end
  end
  return false, "error in error handling"
end
function G.xpcall(...)
  if select("#", ...) < 2 then bad_argument(2, "value expected") end
  local body, handler = ...
  return unnested(depth, handled(handler, raw_xpcall(body, catch)))
end

local routines = only(coroutine, "status running yield")
local raw_create, resume = coroutine.create, nested(coroutine.resume)
local function create(body)
  local info = type(body) == "function" and getinfo(body, "S")
  if not info or info.what == "C" or info.source == "=holdfast" then -- the functions of Redis are C functions
    bad_argument(1, "Lua function expected")
  end
  return raw_create(body)
end
routines.create = create
function routines.resume(...)
  local routine = ...
  if type(routine) ~= "thread" then bad_argument(1, "coroutine expected") end
  return resumed(routine, resume(...))
end
function routines.wrap(body)
  local routine = create(body)
  return function(...) return unwrapped(resumed(routine, resume(routine, ...))) end
end
G.coroutine = protect(routines)

-- -- running -----------------------------------------------------------------------------------

-- How a script ended, if its result is no plain value: with a table of flat values, with flat values, with
-- an array of plain values, with a status, with an error, or killed.
local TABLE, FLAT, ARRAY, STATUS, FAILED, KILLED = 1, 2, 3, 4, 5, 6

local flatten, plain_length = libraries.results(behind)

local function result_of(value)
  local kind = type(value)
  if kind == "string" or kind == "number" then return value end
  if kind ~= "table" and kind ~= "boolean" then return nil end
  local length, status = plain_length(value, MOST_VALUES)
  if length then return ARRAY, unpack(value, 1, length) end
  if status then return STATUS, status end
  local flat = {}
  local size = flatten(value, flat, 0, 1)
  if size > MOST_VALUES then return TABLE, flat end
  return FLAT, unpack(flat, 1, size)
end

local function killed()
  begin()
  dead = nil
  return KILLED, "", dead_source, dead_line
end

local function failed(problem)
  if dead then return killed() end
  if type(problem) ~= "table" then return FAILED, "ERR " .. tostring(presentable(problem)), nil, nil end
  return FAILED, problem.err, problem.source, problem.line, problem.ignore_error_stats_update == true
end

-- Handles an error of `failed`: the hook can end that function, too, or memory may not suffice for it.
local function safely(ok, ...)
  if ok then return ... end
  if dead then return killed() end
  begin()
  local problem = ...
  return FAILED, "ERR " .. tostring(presentable(problem)), nil, nil
end

local function ended(ok, ...)
  depth = 0
  if ok and not dead then return ... end
  return safely(raw_pcall(failed, ...))
end

-- Runs a function that the hook may end from now on.
local function enter(body, ...)
  begin()
  return ended(raw_xpcall(body, err_handler, ...))
end

-- For each small number of keys, a function that makes a table of the keys and a table of the other
-- arguments. It takes a quarter of the time of `select` and `unpack`.
local splitters, names = {}, ""
for count = 0, 9 do
  local text = "return function(" .. names .. "...) return { " .. names .. " }, { ... } end"
  splitters[count] = raw_load(text, "=holdfast")()
  names = names .. "key" .. count .. ", "
end

local function split(key_count, ...)
  local splitter = splitters[key_count]
  if splitter then return splitter(...) end
  return { unpack({ ... }, 1, key_count) }, { select(key_count + 1, ...) }
end

-- These functions run inside the xpcall of `enter`, so their own errors are caught like those of the script.
local function run_with(script, keys, args)
  G.KEYS, G.ARGV = keys, args
  return result_of(script())
end
local function run(script, ...)
  G.KEYS, G.ARGV = split(...)
  return result_of(script())
end

local function call_with(callback, keys, args) return result_of(callback(keys, args)) end
local function call(callback, ...) return result_of(callback(split(...))) end

-- While a library is loaded, its code sees only the globals in LOADING.
local LOADING, begin_library, end_library = libraries.functions(redis, protect, strict, raise)

local function load_library(code)
  begin_library()
  env_meta.__index = LOADING
  code()
end

local function loaded(ending, ...)
  local functions = end_library()
  env_meta.__index = G
  if ending == nil then return functions end
  return ending, ...
end

-- The collector starts when memory has grown by half since its last run. This Lua state is so small that the
-- collector would run all the time. The ballast takes 2 MB, and makes the collector start fifteen times more
-- rarely.
collect("setpause", 150)
local ballast = string.rep("x", 2 ^ 21) -- not our own rep, which may end a script
debug = nil -- otherwise lupa looks up `traceback` for each call, and adds a traceback to each error

return {
  run = function(...) return enter(run, ...) end,
  call = function(...) return enter(call, ...) end,
  run_with = function(...) return enter(run_with, ...) end,
  call_with = function(...) return enter(call_with, ...) end,
  load_library = function(code) return loaded(enter(load_library, code)) end,
  -- Returns the function; or nil and the error in the text; or how the script ended.
  compile = function(...) return enter(compile, ...) end,
  collect = function() raw_pcall(collect) end,
  -- Whether an error that reached Python was the end of a killed script: the hook can also run outside of
  -- the xpcall, where nothing catches its error. Resets the state for the next script.
  was_killed = function()
    local was_dead = dead
    dead, depth, env_meta.__index = nil, 0, G
    end_library()
    begin()
    return was_dead
  end,
  ballast = ballast,
}
