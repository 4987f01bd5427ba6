-- redis.*: what scripts say to the server. Errors are in Redis's words.

local python = ...

local error, type, select, unpack, tostring, tonumber = error, type, select, unpack, tostring, tonumber
local concat, match, setmetatable = table.concat, string.match, setmetatable
local call_engine, check_memory, used_kb, limit_kb = python.call, python.check_memory, gcinfo, python.limit_kb
local find_doors, rest = python.doors, python.rest
local MOST_VALUES = 200 -- passed at once; more go in a table
local MUCH_KB = math.min(limit_kb, 8192) -- above it, strings can be too long to be copied in vain

local redis = {}

local function raise(message)
  error({ err = message, ignore_error_stats_update = true }, 0)
end

-- -- calling -----------------------------------------------------------------------------------

-- What the engine answered: a plain value, or with a kind what to make of it.
local STATUS, ARRAY, ERROR, KILLED, LACK, AGAIN = 1, 2, 3, 4, 5, 6

local function built(value, kind, ...)
  if kind == STATUS then return { ok = value } end
  if kind == ARRAY then return { ... } end
  if kind == ERROR then return { err = value, ignore_error_stats_update = true } end
  if kind == LACK then error("not enough memory", 0) end
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

-- Commands by their names, as scripts spell them: what to index with one argument, and with a text
-- that has several; see calls.py. And what to call, once a command has answered with many values.
-- What is in none of these is asked in full.
local ONE, SEVERAL, MANY_OF_ONE, MANY_OF_SEVERAL = {}, {}, {}, {}

local MOST_KNOWN, known = 4096, 0 -- a name has more spellings than anybody needs

local function find(name)
  if type(name) == "string" and ONE[name] == nil and known < MOST_KNOWN then
    local one, several = find_doors(name)
    if one == nil then return end -- there is no such command
    ONE[name], SEVERAL[name], known = one, several, known + 1
  end
end

local function answers_many(name, count)
  local from, to = ONE, MANY_OF_ONE
  if count > 2 then from, to = SEVERAL, MANY_OF_SEVERAL end
  if from[name] then to[name], from[name] = from[name], false end
end

local function noting(name, count, value, kind, ...)
  if kind == ARRAY then answers_many(name, count) end
  return value, kind, ...
end

-- Numbers that Lua writes as Redis does: a few, and what makes the others. (A table cannot tell 0 from
-- its negative.)
local TEXTS = {}
for number = 1, 100 do TEXTS[number], TEXTS[-number] = number .. "", -number .. "" end
setmetatable(TEXTS, {
  __index = function(_, value)
    if type(value) == "number" and value % 1 == 0 and value > -1e14 and value < 1e14 and value ~= 0 then
      return value .. ""
    end
  end,
})

-- A command that is new here, many arguments, long ones or wrong ones.
local function in_full(answer, ...)
  local name = ...
  find(name)
  return answer(noting(name, select("#", ...), ask(...)))
end

local function fetched(answer, all, count, value, kind, ...)
  if kind == AGAIN then return answer(ask(unpack(all, 1, count))) end
  return answer(noting(all[1], count, value, kind, ...))
end

-- All that is done here is done for every call, and each instruction counts.
local function caller(answer)
  return function(...)
    local used = used_kb()
    if used > MUCH_KB then
      if used > limit_kb then check_memory() end
      return in_full(answer, ...)
    end
    local name, a, b, c, d = ...
    local count, reply = select("#", ...), nil
    if count == 2 then
      local door = ONE[name]
      if door then
        reply = door[a]
      else
        door = MANY_OF_ONE[name]
        if not door then return in_full(answer, ...) end
        reply = { door(a) }
        if reply[1] ~= true then return reply end
        reply = true
      end
    elseif count == 1 then
      local door = MANY_OF_ONE[name]
      if not door then return in_full(answer, ...) end
      reply = { door() }
      if reply[1] ~= true then return reply end
      reply = true
    else
      if type(a) ~= "string" then return in_full(answer, ...) end
      if type(b) ~= "string" then b = b == 0 and 1 / b > 0 and "0" or TEXTS[b] end
      local text
      if count == 3 then
        text = b and "\2\255" .. a .. "\255" .. b
      elseif count <= 5 then
        if type(c) ~= "string" then c = c == 0 and 1 / c > 0 and "0" or TEXTS[c] end
        if count == 4 then
          text = b and c and "\3\255" .. a .. "\255" .. b .. "\255" .. c
        else
          if type(d) ~= "string" then d = d == 0 and 1 / d > 0 and "0" or TEXTS[d] end
          text = b and c and d and "\4\255" .. a .. "\255" .. b .. "\255" .. c .. "\255" .. d
        end
      end
      if not text or #text > 500 then return in_full(answer, ...) end
      local door = SEVERAL[name]
      if door then
        reply = door[text]
      else
        door = MANY_OF_SEVERAL[name]
        if not door then return in_full(answer, ...) end
        reply = { door(text) }
        if reply[1] ~= true then return reply end
        reply = true
      end
    end
    if reply == nil then return { ok = "OK" } end
    if reply == true then return fetched(answer, { ... }, count, rest()) end
    return reply
  end
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
  python.log(level, concat(words, " "))
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
redis.ACTIVE_ACTIVE = python.active_active -- not in Redis, and not on a server of its own
redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3
redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_ALL = 0, 1, 2, 2, 3

return redis, raise
