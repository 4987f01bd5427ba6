-- The globals of a library while it is loaded. Its code can register functions, and do little else.
-- Error texts are those of Redis.

local redis, protect, strict, raise = ...

local type, tostring, select, ipairs, next, rawget = type, tostring, select, ipairs, next, rawget
local getinfo, find, lower = debug.getinfo, string.find, string.lower

local loading = {}
for name in ("log LOG_DEBUG LOG_VERBOSE LOG_NOTICE LOG_WARNING REDIS_VERSION REDIS_VERSION_NUM"):gmatch("%S+") do
  loading[name] = redis[name]
end
local registered, taken -- functions of the library that is being loaded: in order, and by name

local KNOWN_FLAGS = {}
for flag in ("no-writes allow-oom allow-stale no-cluster allow-cross-slot-keys"):gmatch("%S+") do
  KNOWN_FLAGS[flag] = true
end

local function text_of(value, complaint)
  if type(value) == "number" then return tostring(value) end
  if type(value) ~= "string" then raise(complaint) end
  return value
end

local readers = {
  function_name = function(entry, value)
    entry.name = text_of(value, "ERR function_name argument given to redis.register_function must be a string")
  end,
  description = function(entry, value)
    entry.description = text_of(value, "ERR description argument given to redis.register_function must be a string")
  end,
  callback = function(entry, value)
    if type(value) ~= "function" then
      raise("ERR callback argument given to redis.register_function must be a function")
    end
    entry.callback = value
  end,
  flags = function(entry, value)
    if type(value) ~= "table" then
      raise("ERR flags argument to redis.register_function must be a table representing function flags")
    end
    entry.flags = {}
    for index, flag in ipairs(value) do
      flag = text_of(flag, "ERR unknown flag given")
      flag = lower(flag)
      if not KNOWN_FLAGS[flag] then raise("ERR unknown flag given") end
      entry.flags[index] = flag
    end
  end,
}

local function named_arguments(arguments)
  if type(arguments) ~= "table" then
    raise("ERR calling redis.register_function with a single argument is only applicable to Lua table "
      .. "(representing named arguments).")
  end
  local entry = {}
  for name, value in next, arguments do
    name = text_of(name, "ERR named argument key given to redis.register_function is not a string")
    local read = rawget(readers, lower(name))
    if not read then raise("ERR unknown argument given to redis.register_function") end
    read(entry, value)
  end
  if not entry.name then raise("ERR redis.register_function must get a function name argument") end
  if not entry.callback then raise("ERR redis.register_function must get a callback argument") end
  return entry
end

function loading.register_function(...)
  if not registered then
    raise("ERR redis.register_function can only be called on FUNCTION LOAD command")
  end
  local count, name, callback = select("#", ...), ...
  if count < 1 or count > 2 then
    raise("ERR wrong number of arguments to redis.register_function")
  end
  local entry
  if count == 1 then
    entry = named_arguments(name)
  else
    name = text_of(name, "ERR first argument to redis.register_function must be a string")
    if type(callback) ~= "function" then
      raise("ERR second argument to redis.register_function must be a function")
    end
    entry = { name = name, callback = callback }
  end
  if not find(entry.name, "^[%w_]+$") then
    raise("ERR Library names can only contain letters, numbers, or underscores(_) and must be at least "
      .. "one character long")
  end
  if taken[entry.name] then raise("ERR Function already exists in the library") end
  taken[entry.name] = true
  entry.last_line = getinfo(entry.callback, "S").lastlinedefined
  registered[#registered + 1] = entry
end

local LOADING = setmetatable({ redis = protect(setmetatable(loading, strict)) }, strict)

return LOADING,
  function() registered, taken = {}, {} end,
  function()
    local functions = registered
    registered = nil
    return functions
  end
