-- Gives errors the position and the words that they have in Redis. If one of our functions, or a C function
-- that it calls, raises an error, it does not know the line of the script, or the name by which the script
-- called our function. The handler of the error finds both, while the frames of the calls still exist.

local debug, string = ...

local getinfo = debug.getinfo
local find, match, sub = string.find, string.match, string.sub
local type, error, tonumber = type, error, tonumber

local OURS = "=holdfast" -- the source of all our chunks
local MARK = "holdfast:0: "

-- Does the same as luaL_error.
local function fail(message) error(MARK .. message, 0) end

-- Does the same as luaL_argerror.
local function bad_argument(number, message)
  fail("bad argument #" .. number .. " to '?' (" .. message .. ")")
end

-- Texts of LuaJIT, and the texts of Lua 5.1 for the same errors.
local SAID_OTHERWISE = {
  ["attempt to yield across C-call boundary"] = "attempt to yield across metamethod/C-call boundary",
}

-- The innermost frame that belongs to a script.
local function frame()
  local level = 3
  while true do
    local info = getinfo(level, "Sl")
    if not info or (info.source ~= OURS and info.currentline > 0) then return info end
    level = level + 1
  end
end

-- Returns the outermost of our frames around the error, and the frame that called it.
local function call_of(thread)
  local level, ours = thread and 0 or 4, nil -- the level of the function that raised the error
  while true do
    local info
    if thread then info = getinfo(thread, level, "nSl") else info = getinfo(level, "nSl") end
    if not info or (ours and info.source ~= OURS) then return ours, info end
    if info.source == OURS then ours = info end
    level = level + 1
  end
end

-- Adds the position and the name to the text of an error. Without `thread` the error is one of the running
-- thread, and the caller must be its error handler. `thread` is a coroutine that the error has ended.
local function repaired(problem, thread)
  if type(problem) ~= "string" then return problem end
  local _, stop = find(problem, "^holdfast:%d+: ")
  if not stop then
    local said = match(problem, "^[^:]+:%d+: (attempt to yield .*)$") or problem
    return SAID_OTHERWISE[said] or problem
  end
  local message = sub(problem, stop + 1)
  local ours, caller = call_of(thread)
  local is_lua = caller and caller.what ~= "C" and caller.currentline > 0
  local number, rest = match(message, "^bad argument #(%d+) to '[^']*' (.*)$")
  if number then
    local name = is_lua and ours and ours.name or "?"
    local is_method = is_lua and ours and ours.namewhat == "method"
    if is_method and number == "1" then
      message = "calling '" .. name .. "' on bad self " .. rest
    else
      number = is_method and tonumber(number) - 1 or number
      message = "bad argument #" .. number .. " to '" .. name .. "' " .. rest
    end
  end
  return is_lua and caller.short_src .. ":" .. caller.currentline .. ": " .. message or message
end

return fail, bad_argument, repaired, frame
