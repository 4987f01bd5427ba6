-- cmsgpack: results and errors are those of the cmsgpack library in Redis.

local python = ...
local fail, bad_argument, pairs_in_order = python.fail, python.bad_argument, python.pairs_in_order
local byte, char, sub, concat = string.byte, string.char, string.sub, table.concat
local floor, type, next, select, unpack = math.floor, type, next, select, unpack
local tonumber, tostring, rawget = tonumber, tostring, rawget

local DEEPEST = 16 -- levels of tables in tables; deeper tables become nil

-- -- packing -------------------------------------------------------------------------------------

local function big_endian(number, length)
  local bytes = {}
  for index = length, 1, -1 do
    local rest = number % 256
    bytes[index] = char(rest)
    number = (number - rest) / 256
  end
  return concat(bytes)
end

local function pack_integer(number)
  if number >= 0 then
    if number <= 127 then return char(number) end
    if number <= 0xFF then return "\204" .. char(number) end
    if number <= 0xFFFF then return "\205" .. big_endian(number, 2) end
    if number <= 0xFFFFFFFF then return "\206" .. big_endian(number, 4) end
    return "\207" .. big_endian(number, 8)
  end
  if number >= -32 then return char(256 + number) end
  if number >= -128 then return "\208" .. char(256 + number) end
  if number >= -32768 then return "\209" .. big_endian(65536 + number, 2) end
  if number >= -2147483648 then return "\210" .. big_endian(2 ^ 32 + number, 4) end
  return "\211" .. python.pack(">q", number)
end

local function pack_number(number)
  if number == floor(number) and number >= -2 ^ 63 and number < 2 ^ 63 then
    return pack_integer(number)
  end
  local single = python.pack(">f", number)
  if python.unpack(">f", single) == number then return "\202" .. single end
  return "\203" .. python.pack(">d", number)
end

local function pack_string(text)
  local size = #text
  if size < 32 then return char(160 + size) .. text end
  if size <= 0xFF then return "\217" .. char(size) .. text end
  if size <= 0xFFFF then return "\218" .. big_endian(size, 2) .. text end
  return "\219" .. big_endian(size, 4) .. text
end

-- Returns the length of a table that is an array. For any other table returns nil and its number of pairs.
local function measure(table)
  local most, items, is_array = 0, 0, true
  for key in next, table do
    items = items + 1
    if type(key) ~= "number" or key <= 0 or key ~= floor(key) then
      is_array = false
    elseif key > most then
      most = key
    end
  end
  if is_array and most == items then return items end
  return nil, items
end

local function header(count, small, medium)
  if count <= 15 then return char(small + count) end
  if count <= 0xFFFF then return char(medium) .. big_endian(count, 2) end
  return char(medium + 1) .. big_endian(count, 4)
end

local function pack_value(value, level, out, size)
  local kind = type(value)
  size = size + 1
  if kind == "string" then
    out[size] = pack_string(value)
  elseif kind == "number" then
    out[size] = pack_number(value)
  elseif kind == "boolean" then
    out[size] = value and "\195" or "\194"
  elseif kind == "table" and level < DEEPEST then
    local length, pairs_count = measure(value)
    if length then
      out[size] = header(length, 0x90, 0xDC)
      for index = 1, length do size = pack_value(rawget(value, index), level + 1, out, size) end
    else
      out[size] = header(pairs_count, 0x80, 0xDE)
      for key, item in pairs_in_order(value) do
        size = pack_value(key, level + 1, out, size)
        size = pack_value(item, level + 1, out, size)
      end
    end
  else
    out[size] = "\192"
  end
  return size
end

local function pack(...)
  local count = select("#", ...)
  if count == 0 then bad_argument(0, "MessagePack pack needs input.") end
  local out, size = {}, 0
  for index = 1, count do size = pack_value((select(index, ...)), 0, out, size) end
  return concat(out, "", 1, size)
end

-- -- unpacking -----------------------------------------------------------------------------------

local text, at, last -- the input, the position of its next byte, and of its last byte

local function take(length)
  local from = at
  if last - from + 1 < length then fail("Missing bytes in input.") end
  at = from + length
  return from
end

local function unsigned(length)
  local number = 0
  for index = take(length), at - 1 do number = number * 256 + byte(text, index) end
  return number
end

local function signed(length)
  if length == 8 then
    local from = take(8)
    return python.unpack(">q", sub(text, from, from + 7))
  end
  local number = unsigned(length)
  local limit = 2 ^ (8 * length)
  return number >= limit / 2 and number - limit or number
end

local function bytes(length)
  local from = take(length)
  return sub(text, from, from + length - 1)
end

local read

local function array(count)
  local items = {}
  for index = 1, count do items[index] = read() end
  return items
end

local function map(count)
  local pairs_read = {}
  for _ = 1, count do
    local key = read()
    local value = read()
    if key == nil then fail("table index is nil") end
    if key ~= key then fail("table index is NaN") end
    pairs_read[key] = value
  end
  return pairs_read
end

local readers = {
  [0xC0] = function() return nil end,
  [0xC2] = function() return false end,
  [0xC3] = function() return true end,
  [0xCA] = function() return python.unpack(">f", bytes(4)) end,
  [0xCB] = function() return python.unpack(">d", bytes(8)) end,
  [0xCC] = function() return unsigned(1) end,
  [0xCD] = function() return unsigned(2) end,
  [0xCE] = function() return unsigned(4) end,
  [0xCF] = function() return signed(8) end, -- unsigned in msgpack, but Redis reads it as signed
  [0xD0] = function() return signed(1) end,
  [0xD1] = function() return signed(2) end,
  [0xD2] = function() return signed(4) end,
  [0xD3] = function() return signed(8) end,
  [0xD9] = function() return bytes(unsigned(1)) end,
  [0xDA] = function() return bytes(unsigned(2)) end,
  [0xDB] = function() return bytes(unsigned(4)) end,
  [0xDC] = function() return array(unsigned(2)) end,
  [0xDD] = function() return array(unsigned(4)) end,
  [0xDE] = function() return map(unsigned(2)) end,
  [0xDF] = function() return map(unsigned(4)) end,
}

function read()
  local code = byte(text, take(1))
  if code <= 0x7F then return code end
  if code >= 0xE0 then return code - 256 end
  if code >= 0xA0 and code <= 0xBF then return bytes(code - 0xA0) end
  if code >= 0x90 and code <= 0x9F then return array(code - 0x90) end
  if code <= 0x8F then return map(code - 0x80) end
  local reader = readers[code]
  if not reader then fail("Bad data format in input.") end
  return reader()
end

local function checked_string(...)
  local value = ...
  if type(value) == "number" then value = tostring(value) end
  if type(value) ~= "string" then
    bad_argument(1, "string expected, got " .. (select("#", ...) == 0 and "no value" or type(value)))
  end
  return value
end

-- The argument with this number, as an integer.
local function checked_integer(number, ...)
  local value = select(number, ...)
  local integer = tonumber(value)
  if not integer then
    local got = select("#", ...) < number and "no value" or type(value)
    bad_argument(number, "number expected, got " .. got)
  end
  return integer >= 0 and floor(integer) or -floor(-integer)
end

local function offset_of(number, ...)
  return select("#", ...) < number and 0 or checked_integer(number, ...)
end

local function unpack_full(input, limit, offset)
  local takes_all = limit == 0 and offset == 0
  if offset < 0 or limit < 0 then
    fail("Invalid request to unpack with offset of " .. offset .. " and limit of " .. #input .. ".")
  elseif offset > #input then
    fail("Start offset " .. offset .. " greater than input length " .. #input .. ".")
  end
  text, at, last = input, offset + 1, #input
  local values, count = {}, 0
  if not takes_all then
    count = 1 -- the first result is the offset at which the next call continues
  end
  local read_count = 0
  while at <= last and (takes_all or read_count < limit) do
    read_count, count = read_count + 1, count + 1
    values[count] = read()
  end
  if not takes_all then values[1] = at > last and -1 or at - 1 end
  text = nil
  return unpack(values, 1, count)
end

return {
  _NAME = "cmsgpack", _VERSION = "lua-cmsgpack 0.4.0",
  _COPYRIGHT = "Copyright (C) 2012, Salvatore Sanfilippo",
  _DESCRIPTION = "MessagePack C implementation for Lua",
  pack = pack,
  unpack = function(...) return unpack_full(checked_string(...), 0, 0) end,
  unpack_one = function(...) return unpack_full(checked_string(...), 1, offset_of(2, ...)) end,
  unpack_limit = function(...)
    local input = checked_string(...)
    return unpack_full(input, checked_integer(2, ...), offset_of(3, ...))
  end,
}
