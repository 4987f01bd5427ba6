-- The world that scripts see, and the door to it. Run once, in a fresh Lua state, with a table of
-- the Python functions that it may call, and the other files here as functions; returns the
-- functions that Python calls. Scripts get closures only: what is captured here (Python's
-- functions, debug, the real tables) cannot be reached from them.
--
-- Python's functions never raise: what comes out of one as an exception would be an object. The
-- table of them is also how our files share what they all need.

local python, libraries = ...

local error, type, select, unpack, tostring, rawget = error, type, select, unpack, tostring, rawget
local raw_pcall, raw_xpcall, raw_load, collect = pcall, xpcall, load, collectgarbage
local getinfo, sethook, setmetatable = debug.getinfo, debug.sethook, setmetatable
local clock, used_kb, limit_kb = os.clock, gcinfo, python.limit_kb
local tick = python.tick
local MOST_VALUES = 200 -- returned at once; more go in a table

-- -- ending a script ---------------------------------------------------------------------------

-- A script that has to end: everything that could catch the error raises it again. Python knows
-- why: a text would need memory.
local DEAD = {}
local dead, dead_source, dead_line -- whether, and where

-- What a call returned that catches errors, unless the script has to end.
local function survived(...)
  if dead then error(DEAD, 0) end
  return ...
end

local fail, bad_argument, repaired, frame = libraries.errors(debug, string)

local function die()
  local info = frame()
  dead, dead_source, dead_line = true, info and info.source, info and info.currentline
  sethook(function() -- whatever catches it gets no further than a line
    if getinfo(2, "S").source ~= "=holdfast" then error(DEAD, 0) end
  end, "l")
  error(DEAD, 0)
end

-- Looks at the clock, and asks Python no more than once a millisecond. What may take long calls it
-- beforehand.
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

-- The hook: called every so many instructions, of fewer of them where they take long (as on large
-- texts). The clock costs as much as a hundred instructions: while there is little to work on, and
-- they cannot take long, it is looked at every fourth time.
local LITTLE_KB, SELDOM = 4096, 4
local steps = 0
function on_step()
  steps = steps + 1
  if steps >= SELDOM or used_kb() > LITTLE_KB then
    steps = 0
    watch()
  end
end

-- Before each script: whatever became of the hook in the one before.
local function begin() sethook(on_step, "", STEP) end

-- Above the limit no call into Python begins: there, an allocation must not fail.
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

-- -- what there is -----------------------------------------------------------------------------

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
-- What C takes for an end, when it copies a text.
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
    problem = { err = "ERR " .. tostring(problem) } -- redis-server 7.0 crashes
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
-- The handler runs when the frames below it are gone. Where they still are, an error may have been
-- raised in the hook (for lack of stack, say), and no hook runs in a hook: a loop in the handler
-- would have no end. A handler that fails handles its own error, as in Lua 5.1.
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
  if not info or info.what == "C" or info.source == "=holdfast" then -- Redis's are of C
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

-- How it ended, where it is not told by a plain value: a table of flat values, those values, an
-- array of plain values, a status, an error, killed.
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

-- Also what is done after a failure may be interrupted, or lack memory.
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

-- From here on a script may be ended.
local function enter(body, ...)
  begin()
  return ended(raw_xpcall(body, err_handler, ...))
end

-- By number of keys, while there are few: what makes two tables of keys and arguments, in a quarter
-- of the time that `select` and `unpack` take.
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

-- What is around a script is protected as it is.
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

-- While the code of a library runs it sees nothing but what LOADING has.
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

-- The collector begins when memory has grown by half since it last ended, which for a world as small
-- as this one would be all the time. The ballast makes it begin fifteen times more rarely, for 2 MB.
collect("setpause", 150)
local ballast = string.rep("x", 2 ^ 21) -- not ours, which may end a script
debug = nil -- else lupa looks up `traceback` for every call, and puts one into every error

return {
  run = function(...) return enter(run, ...) end,
  call = function(...) return enter(call, ...) end,
  run_with = function(...) return enter(run_with, ...) end,
  call_with = function(...) return enter(call_with, ...) end,
  load_library = function(code) return loaded(enter(load_library, code)) end,
  -- The function; nil and what is wrong with the text; or how it ended.
  compile = function(...) return enter(compile, ...) end,
  collect = function() raw_pcall(collect) end,
  -- Whether what escaped was the end of a script that was to be ended: the hook may also run around
  -- it, where nothing catches that. If so, the next one is another.
  was_killed = function()
    local was_dead = dead
    dead, depth, env_meta.__index = nil, 0, G
    end_library()
    begin()
    return was_dead
  end,
  ballast = ballast,
}
