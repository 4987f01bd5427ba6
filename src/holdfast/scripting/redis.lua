-- The functions redis.*, with which scripts call the server. Error texts are those of Redis.

local python = ...

local error, type, select, unpack, tostring, tonumber = error, type, select, unpack, tostring, tonumber
local concat, match, sub = table.concat, string.match, string.sub
local call_engine, check_memory, used_kb, limit_kb = python.call, python.check_memory, gcinfo, python.limit_kb
local new_call, find_door, fetch = python.new_call, python.door, python.fetch
local MOST_VALUES = 200 -- passed as arguments; more values are passed in a table

local redis = {}

local function raise(message)
  error({ err = message, ignore_error_stats_update = true }, 0)
end

-- -- calling -----------------------------------------------------------------------------------

-- A reply from Python is a plain value, or a value and its kind. `built` makes the Lua value of the latter.
local STATUS, ARRAY, ERROR, KILLED, NO_ROOM = 1, 2, 3, 4, 5

local function built(value, kind, ...)
  if kind == STATUS then return { ok = value } end
  if kind == ARRAY then return { ... } end
  if kind == ERROR then return { err = value, ignore_error_stats_update = true } end
  if kind == NO_ROOM then error("not enough memory", 0) end
  python.die() -- KILLED
end

local function answered(value, kind, ...)
  if kind == nil then return value end
  return built(value, kind, ...)
end

local function answered_or_raised(value, kind, ...)
  if kind == nil then return value end
  if kind == ERROR then raise(value) end
  return built(value, kind, ...)
end

-- Replaces -0 by a text, because lupa passes -0 to Python as 0.
local function with_signs(...)
  local all, count = { ... }, select("#", ...)
  for index = 2, count do
    if all[index] == 0 and 1 / all[index] < 0 then all[index] = "-0" end
  end
  return all
end

local function ask(...)
  local all, count = with_signs(...), select("#", ...)
  if count > MOST_VALUES then return python.call_many(all, count) end
  return call_engine(unpack(all, 1, count))
end

-- If the gate is compiled (_gate.c): the number of the gate's door to each command, by the name as scripts
-- spell it. A call without a door, or that its door does not let through, goes through Python (`in_full`).
local DOORS = {}
local MOST_DOORS, known = 4096, 0 -- a limit, because scripts can spell a name in many ways (GET, get, gEt)

local function find(name)
  if type(name) == "string" and DOORS[name] == nil and known < MOST_DOORS then
    local number = find_door(name)
    if number == nil then return end -- no command has this name
    DOORS[name], known = number, known + 1
  end
end

local function caller(answer)
  local function in_full(...)
    if used_kb() > limit_kb then check_memory() end
    return answer(ask(...))
  end
  if not new_call then return in_full end
  local function otherwise(...)
    find((...))
    return in_full(...)
  end
  return new_call(DOORS, otherwise, function() return answer(fetch()) end)
end
redis.call, redis.pcall = caller(answered_or_raised), caller(answered)

function redis.acl_check_cmd(...)
  check_memory()
  return answered_or_raised(python.acl_check(...))
end

-- -- the rest ----------------------------------------------------------------------------------

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
    local whole = python.c_string(reply.err)
    local code, text = match(whole, "^%-?([^ ]*) (.*)$")
    if not code then code, text = "ERR", match(whole, "^%-?(.*)$") end
    reply.err = code .. " " .. match(text, "^[\r\n]*(.-)[\r\n]*$")
  end
  return reply
end

-- Converts an argument to a text in the way of lua_tolstring.
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

local LONGEST_LOG = 1024 -- bytes; a longer line is cut
function redis.log(level, ...)
  if select("#", ...) < 1 then raise("ERR redis.log() requires two arguments or more.") end
  if type(level) == "string" then level = tonumber(level) end
  if type(level) ~= "number" then
    raise("ERR First argument must be a number (log level).")
  end
  if not (level > -1 and level < 4) then raise("ERR Invalid debug level.") end -- written so that NaN fails, too
  local words = {}
  for index = 1, select("#", ...) do words[index] = as_text((select(index, ...))) end
  check_memory()
  local text = concat(words, " ")
  python.log(level, sub(text, 1, LONGEST_LOG), #text)
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

if not python.for_functions then
  function redis.replicate_commands() return true end
  function redis.breakpoint() return false end
  function redis.debug() end
end

redis.REDIS_VERSION, redis.REDIS_VERSION_NUM = python.version, python.version_number
redis.ACTIVE_ACTIVE = python.active_active -- Redis has no such field; nil on a standalone server
redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3
redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_ALL = 0, 1, 2, 2, 3

return redis, raise
