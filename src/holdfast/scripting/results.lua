-- Flattens the result of a script into one list, because Python is slow at walking through Lua tables.

local behind = ...

local type, rawget, next, getmetatable = type, rawget, next, getmetatable

-- Returns the length of an array of 1 to `most` strings and numbers. For any other value returns nil, and
-- the text of a status reply (a table with `ok`).
local function plain_length(value, most)
  if type(value) ~= "table" or getmetatable(value) ~= nil or value.err ~= nil then return nil end
  local status = value.ok
  if status ~= nil then return nil, type(status) == "string" and status or nil end
  if value.double ~= nil or value.map ~= nil or value.set ~= nil or value.big_number ~= nil
    or value.verbatim_string ~= nil then
    return nil
  end
  for index = 1, most + 1 do
    local item = value[index]
    if item == nil then return index > 1 and index - 1 or nil end
    local kind = type(item)
    if kind ~= "string" and kind ~= "number" then return nil end
  end
end

-- The flat form: a string or number is one item. Any other value is `true`, one of these codes, and its
-- data, if it has any.
local ARRAY_OF, NIL, BOOLEAN, AN_ERROR, A_STATUS, DOUBLE, MAP, SET, BIG, VERBATIM = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local COUNTED_ERROR = 11 -- an error of a command, which INFO has counted already
local DEEPEST = 200 -- levels; Redis stops at 7,995, the limit of its stack

local function coded(into, size, code, value)
  into[size + 1], into[size + 2], into[size + 3] = true, code, value
  return size + 3
end

local function flatten(value, into, size, depth)
  local kind = type(value)
  if kind == "string" or kind == "number" then
    into[size + 1] = value
    return size + 1
  elseif kind == "boolean" then
    return coded(into, size, BOOLEAN, value and 1 or 0)
  elseif kind ~= "table" then
    return coded(into, size, NIL) - 1
  elseif depth > DEEPEST then
    return coded(into, size, AN_ERROR, "ERR reached lua stack limit")
  end
  value = behind[value] or value
  local special = rawget(value, "err")
  if type(special) == "string" then
    local is_counted = rawget(value, "ignore_error_stats_update") == true
    return coded(into, size, is_counted and COUNTED_ERROR or AN_ERROR, special)
  end
  special = rawget(value, "ok")
  if type(special) == "string" then return coded(into, size, A_STATUS, special) end
  special = rawget(value, "double")
  if type(special) == "number" then
    return coded(into, size, DOUBLE, special == 0 and 1 / special < 0 and "-0" or special)
  end
  special = rawget(value, "map")
  if type(special) == "table" then
    local at, count = coded(into, size, MAP, 0), 0
    size = at
    for key, item in next, special do
      size = flatten(item, into, flatten(key, into, size, depth + 1), depth + 1)
      count = count + 1
    end
    into[at] = count
    return size
  end
  special = rawget(value, "set")
  if type(special) == "table" then
    local at, count = coded(into, size, SET, 0), 0
    size = at
    for key in next, special do
      size = flatten(key, into, size, depth + 1)
      count = count + 1
    end
    into[at] = count
    return size
  end
  special = rawget(value, "big_number")
  if type(special) == "string" then return coded(into, size, BIG, special) end
  special = rawget(value, "verbatim_string")
  if type(special) == "table" then
    local format, text = rawget(special, "format"), rawget(special, "string")
    if type(format) == "string" and type(text) == "string" then
      size = coded(into, size, VERBATIM, format)
      into[size + 1] = text
      return size + 1
    end
  end
  local at, length = coded(into, size, ARRAY_OF, 0), 0
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

return flatten, plain_length
