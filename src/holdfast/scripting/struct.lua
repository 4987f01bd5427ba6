-- struct: results and errors are those of the struct library in Redis. A format is a text of one letter
-- for each item, with sizes, alignment and byte order.

local python = ...
local fail, argument, band = python.fail, python.bad_argument, bit.band
local byte, char, sub, rep, reverse, find = string.byte, string.char, string.sub, string.rep, string.reverse, string.find
local concat, floor, type, tonumber, tostring, unpack, select = table.concat, math.floor, type, tonumber, tostring, unpack, select

local LARGEST_INTEGER = 32
local SIZES = { b = 1, B = 1, h = 2, H = 2, l = 8, L = 8, T = 8, f = 4, d = 8, x = 1 }
local NATIVE_ALIGNMENT = 8


local function got(value, is_there)
  if value == nil and not is_there then return "no value" end
  return type(value)
end

-- Walks over a format, and calls `each` for every item. `each` returns the position behind the item.
local function walk(format, at, each)
  local little, alignment = true, 1
  local position = 1

  local function number(default)
    local first, last = find(format, "^%d+", position)
    if not first then return default end
    local digits = sub(format, first, last)
    position = last + 1
    local value = tonumber(digits)
    if value > 2147483647 then fail("integral size overflow") end
    return value
  end

  while position <= #format do
    local letter = sub(format, position, position)
    position = position + 1
    if letter == "<" then
      little = true
    elseif letter == ">" then
      little = false
    elseif letter == "!" then
      alignment = number(NATIVE_ALIGNMENT)
      if alignment == 0 or 2 ^ floor(math.log(alignment) / math.log(2) + 0.5) ~= alignment then
        fail("alignment " .. alignment .. " is not a power of 2")
      end
    elseif letter ~= " " then
      local size = SIZES[letter]
      if letter == "i" or letter == "I" then
        size = number(4)
        if size > LARGEST_INTEGER then
          fail("integral size " .. size .. " is larger than limit of " .. LARGEST_INTEGER)
        end
      elseif letter == "c" then
        size = number(1)
      elseif letter == "s" then
        size = 0
      elseif not size then
        argument(1, "invalid format option '" .. letter .. "'")
      end
      local padding = 0
      if size > 1 and letter ~= "c" and alignment > 1 then
        -- C has this formula, and uses it also for sizes that are no power of 2.
        local to = size < alignment and size or alignment
        padding = band(to - band(at, to - 1), to - 1)
      end
      at = each(letter, size, padding, little, at + padding)
    end
  end
  return at
end

local function integer_bytes(number, size, little)
  local bytes = {}
  -- C converts the number to a 64-bit integer, so bytes after the eighth are 0, also of negative numbers.
  local packed = python.pack("<q", number)
  for index = 1, size do
    bytes[index] = index <= 8 and sub(packed, index, index) or "\0"
  end
  local text = concat(bytes)
  return little and text or reverse(text)
end

local function format_of(...)
  local value = ...
  if type(value) == "number" then return tostring(value) end
  if type(value) ~= "string" then
    argument(1, "string expected, got " .. got(value, select("#", ...) > 0))
  end
  return value
end

local function pack(...)
  local format = format_of(...)
  local out, next_argument = {}, 1
  local values = { select(2, ...) }
  local function value(kind)
    local number = next_argument
    next_argument = number + 1
    local item = values[number]
    local converted = item
    if kind == "number" then
      converted = tonumber(item)
    elseif type(item) == "number" then
      converted = tostring(item)
    elseif type(item) ~= "string" then
      converted = nil
    end
    if converted == nil then
      argument(number + 1, kind .. " expected, got " .. type(item))
    end
    return converted, number + 1
  end
  walk(format, 0, function(letter, size, padding, little, at)
    out[#out + 1] = rep("\0", padding)
    if letter == "x" then
      out[#out + 1] = "\0"
      return at + 1
    elseif letter == "f" or letter == "d" then
      out[#out + 1] = python.pack((little and "<" or ">") .. letter, (value("number")))
      return at + size
    elseif letter == "s" or letter == "c" then
      local text, number = value("string")
      if letter == "s" then
        out[#out + 1] = text .. "\0"
        return at + #text + 1
      end
      if size == 0 then size = #text end
      if #text < size then argument(number + 1, "string too short") end
      out[#out + 1] = sub(text, 1, size)
      return at + size
    end
    out[#out + 1] = integer_bytes(value("number"), size, little)
    return at + size
  end)
  return concat(out)
end

local function unpack_(...)
  local format, data, position = ...
  format = format_of(...)
  if type(data) == "number" then data = tostring(data) end
  if type(data) ~= "string" then argument(2, "string expected, got " .. got(data, select("#", ...) > 1)) end
  local start = position == nil and 1 or tonumber(position)
  if not start then argument(3, "number expected, got " .. got(position)) end
  start = floor(start)
  if start == 0 then argument(3, "offset must be 1 or greater") end
  if start < 0 then argument(2, "data string too short") end
  local values, count, length = {}, 0, #data
  local function need(size, at)
    if not (size <= length and at <= length - size) then argument(2, "data string too short") end
  end
  local stop = walk(format, start - 1, function(letter, size, padding, little, at)
    need(size, at)
    if letter == "x" then
      return at + 1
    elseif letter == "s" then
      local zero = find(data, "%z", at + 1)
      if not zero then fail("unfinished string in data") end
      count = count + 1
      values[count] = sub(data, at + 1, zero - 1)
      return zero
    elseif letter == "c" then
      if size == 0 then
        if count == 0 or type(values[count]) ~= "number" then
          fail("format 'c0' needs a previous size")
        end
        size = floor(values[count])
        count = count - 1
        need(size, at)
      end
      count = count + 1
      values[count] = sub(data, at + 1, at + size)
      return at + size
    elseif letter == "f" or letter == "d" then
      count = count + 1
      values[count] = python.unpack((little and "<" or ">") .. letter, sub(data, at + 1, at + size))
      return at + size
    end
    local text = sub(data, at + 1, at + size)
    if not little then text = reverse(text) end
    local is_signed = find(letter, "%l")
    local fill = is_signed and size > 0 and byte(text, size) >= 128 and "\255" or "\0"
    local eight = sub(text .. rep(fill, 8), 1, 8)
    count = count + 1
    values[count] = python.unpack(is_signed and "<q" or "<Q", eight)
    return at + size
  end)
  values[count + 1] = stop + 1
  return unpack(values, 1, count + 1)
end

local function size(...)
  return walk(format_of(...), 0, function(letter, size, _, _, at)
    if letter == "s" then argument(1, "option 's' has no fixed size") end
    if letter == "c" and size == 0 then argument(1, "option 'c0' has no fixed size") end
    return at + size
  end)
end

return { pack = pack, unpack = unpack_, size = size }
