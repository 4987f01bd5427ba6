-- cjson: results and errors are those of the cjson library in Redis.

local python = ...
local fail, bad_argument, null = python.fail, python.bad_argument, python.null
local pairs_in_order = python.pairs_in_order
local byte, char, find, sub, format = string.byte, string.char, string.find, string.sub, string.format
local gsub, concat, type, tonumber, next, rawget = string.gsub, table.concat, type, tonumber, next, rawget
local floor, huge, select, tostring = math.floor, math.huge, select, tostring
local watch = python.watch
local PIECE_BYTES = 2 ^ 16 -- C escapes a piece in one call, during which no hook runs

local ESCAPED, escapes = "[%c\"\\/\127]", {}
for code = 0, 31 do escapes[char(code)] = format("\\u%04x", code) end
escapes["\127"], escapes["\""], escapes["\\"], escapes["/"] = "\\u007f", "\\\"", "\\\\", "\\/"
escapes["\b"], escapes["\t"], escapes["\n"], escapes["\f"], escapes["\r"] = "\\b", "\\t", "\\n", "\\f", "\\r"
local unescapes = {
  ["\""] = "\"", ["\\"] = "\\", ["/"] = "/", b = "\b", t = "\t", n = "\n", f = "\f", r = "\r",
}

local function utf8(code)
  if code < 0x80 then return char(code) end
  if code < 0x800 then return char(0xC0 + floor(code / 64), 0x80 + code % 64) end
  if code < 0x10000 then
    return char(0xE0 + floor(code / 4096), 0x80 + floor(code / 64) % 64, 0x80 + code % 64)
  end
  return char(
    0xF0 + floor(code / 262144), 0x80 + floor(code / 4096) % 64, 0x80 + floor(code / 64) % 64, 0x80 + code % 64
  )
end

local token_names = {
  ["{"] = "T_OBJ_BEGIN", ["}"] = "T_OBJ_END", ["["] = "T_ARR_BEGIN", ["]"] = "T_ARR_END",
  [":"] = "T_COLON", [","] = "T_COMMA",
}

local function new()
  local convert_sparse, sparse_ratio, sparse_safe = false, 2, 10
  local encode_depth, decode_depth, precision, keep_buffer = 1000, 1000, 14, true
  local encode_invalid, decode_invalid = false, true
  local number_format = "%.14g"

  -- -- encoding -----------------------------------------------------------------------------

  local function refuse(kind, reason) fail("Cannot serialise " .. kind .. ": " .. reason) end

  local function number_text(number)
    if number ~= number or number == huge or number == -huge then
      if encode_invalid == "null" then return "null" end
      if not encode_invalid then refuse("number", "must not be NaN or Inf") end
      return number ~= number and "nan" or number > 0 and "inf" or "-inf"
    end
    return format(number_format, number)
  end

  local function string_text(text)
    if #text <= PIECE_BYTES then return "\"" .. gsub(text, ESCAPED, escapes) .. "\"" end
    local pieces = {}
    for at = 1, #text, PIECE_BYTES do
      watch()
      pieces[#pieces + 1] = gsub(sub(text, at, at + PIECE_BYTES - 1), ESCAPED, escapes)
    end
    return "\"" .. concat(pieces) .. "\""
  end

  -- The length of a table that is an array; nil for any other table.
  local function array_length(table)
    local most, items = 0, 0
    for key in next, table do
      if type(key) ~= "number" or key < 1 or key ~= floor(key) then return nil end
      if key > most then most = key end
      items = items + 1
    end
    if sparse_ratio > 0 and most > items * sparse_ratio and most > sparse_safe then
      if not convert_sparse then refuse("table", "excessively sparse array") end
      return nil
    end
    return most
  end

  local encode_value

  local function encode_table(table, depth, out, size)
    if depth > encode_depth then fail("Cannot serialise, excessive nesting (" .. depth .. ")") end
    local length = array_length(table)
    if length and length > 0 then
      size = size + 1
      out[size] = "["
      for index = 1, length do
        if index > 1 then
          size = size + 1
          out[size] = ","
        end
        size = encode_value(rawget(table, index), depth, out, size)
      end
      out[size + 1] = "]"
      return size + 1
    end
    size = size + 1
    out[size] = "{"
    local is_first = true
    for key, value in pairs_in_order(table) do
      if not is_first then
        size = size + 1
        out[size] = ","
      end
      is_first = false
      local kind = type(key)
      if kind == "number" then
        out[size + 1] = "\"" .. number_text(key) .. "\":"
      elseif kind == "string" then
        out[size + 1] = string_text(key) .. ":"
      else
        refuse(kind, "table key must be a number or string")
      end
      size = encode_value(value, depth, out, size + 1)
    end
    out[size + 1] = "}"
    return size + 1
  end

  function encode_value(value, depth, out, size)
    local kind = type(value)
    if kind == "string" then
      out[size + 1] = string_text(value)
    elseif kind == "number" then
      out[size + 1] = number_text(value)
    elseif kind == "boolean" then
      out[size + 1] = value and "true" or "false"
    elseif kind == "table" then
      return encode_table(value, depth + 1, out, size)
    elseif value == nil or value == null then
      out[size + 1] = "null"
    else
      refuse(kind, "type not supported")
    end
    return size + 1
  end

  local function one_argument(...)
    if select("#", ...) ~= 1 then bad_argument(1, "expected 1 argument") end
    return (...)
  end

  local function encode(...)
    local out = {}
    local size = encode_value(one_argument(...), 0, out, 0)
    return concat(out, "", 1, size)
  end

  -- -- decoding -----------------------------------------------------------------------------

  local text, at -- the text that is decoded, and the position of the next character

  local function expected(what, found, index)
    fail("Expected " .. what .. " but found " .. found .. " at character " .. index)
  end

  local function wrong(what, problem, index)
    expected(what, problem, index or at)
  end

  local function hex4(from)
    local digits = sub(text, from, from + 3)
    return find(digits, "^%x%x%x%x$") and tonumber(digits, 16) or nil
  end

  -- Reads one \uXXXX, or two that are one character. Returns the character and the length of the escape;
  -- nil if there is no valid escape.
  local function unicode_escape(from)
    local code = hex4(from + 2)
    if not code then return nil end
    if code < 0xD800 or code > 0xDFFF then return utf8(code), 6 end
    if code >= 0xDC00 or sub(text, from + 6, from + 7) ~= "\\u" then return nil end
    local low = hex4(from + 8)
    if not low or low < 0xDC00 or low > 0xDFFF then return nil end
    return utf8((code - 0xD800) * 1024 + low - 0xDC00 + 0x10000), 12
  end

  -- Reads a string; `at` is behind its first quote. Afterwards `at` is behind its last quote.
  local function string_token(what)
    local stop = find(text, "[\"\\%z]", at)
    if stop and byte(text, stop) == 34 then
      local value = sub(text, at, stop - 1)
      at = stop + 1
      return value
    end
    local parts = {}
    while true do
      stop = find(text, "[\"\\%z]", at)
      if not stop then
        wrong(what, "unexpected end of string", #text + 1)
      end
      parts[#parts + 1] = sub(text, at, stop - 1)
      at = stop
      local code = byte(text, stop)
      if code == 34 then
        at = stop + 1
        return concat(parts)
      elseif code == 0 then
        wrong(what, "unexpected end of string")
      end
      local letter = sub(text, stop + 1, stop + 1)
      if letter == "u" then
        local character, length = unicode_escape(stop)
        if not character then wrong(what, "invalid unicode escape code") end
        parts[#parts + 1] = character
        at = stop + length
      else
        local character = unescapes[letter]
        if not character then wrong(what, "invalid escape code") end
        parts[#parts + 1] = character
        at = stop + 2
      end
    end
  end

  local function is_invalid_number()
    local from = at
    local code = byte(text, from)
    if code == 43 then return true end
    if code == 45 then from = from + 1 end
    code = byte(text, from) or 0
    if code == 48 then return find(text, "^[xX%d]", from + 1) ~= nil end
    if code <= 57 then return false end
    return find(text, "^[iI][nN][fF]", from) ~= nil or find(text, "^[nN][aA][nN]", from) ~= nil
  end

  local function number_token(what)
    local _, last = find(text, "^[+-]?0[xX]%x*%.?%x*", at)
    local value
    if last and last - at >= 2 and find(text, "^[+-]?0[xX]%.?%x", at) then
      local _, exponent = find(text, "^[pP][+-]?%d+", last + 1)
      last = exponent or last
      value = python.strtod(sub(text, at, last))
    else
      _, last = find(text, "^[+-]?%d+%.?%d*", at)
      if not last then _, last = find(text, "^[+-]?%.%d+", at) end
      if last then
        local _, exponent = find(text, "^[eE][+-]?%d+", last + 1)
        last = exponent or last
        value = tonumber(sub(text, at, last))
        if not value then value = python.strtod(sub(text, at, last)) end
      else
        _, last = find(text, "^[+-]?[iI][nN][fF][iI][nN][iI][tT][yY]", at)
        if not last then _, last = find(text, "^[+-]?[iI][nN][fF]", at) end
        if last then
          value = byte(text, at) == 45 and -huge or huge
        else
          _, last = find(text, "^[+-]?[nN][aA][nN]", at)
          if last then
            local _, tail = find(text, "^%([%w_]*%)", last + 1)
            last, value = tail or last, huge - huge
          end
        end
      end
    end
    if not last then wrong(what, "invalid number") end
    at = last + 1
    return value
  end

  -- Moves `at` to the next token and returns its first character; "" at the end of the text.
  local function peek()
    at = find(text, "[^ \t\r\n]", at) or #text + 1
    local c = sub(text, at, at)
    return c == "\0" and "" or c
  end

  -- Raises an error because the token at `at` is not `what`.
  local function unexpected(what, c)
    local index = at
    local name = token_names[c] or (c == "" and "T_END")
    if name then expected(what, name, index) end
    if c == "\"" then
      at = at + 1
      string_token(what)
      expected(what, "T_STRING", index)
    elseif find(c, "[-%d]") then
      if not decode_invalid and is_invalid_number() then wrong(what, "invalid number") end
      number_token(what)
      expected(what, "T_NUMBER", index)
    elseif find(text, "^true", at) or find(text, "^false", at) then
      expected(what, "T_BOOLEAN", index)
    elseif find(text, "^null", at) then
      expected(what, "T_NULL", index)
    elseif decode_invalid and find(c, "[+iInN]") and is_invalid_number() then
      number_token(what)
      expected(what, "T_NUMBER", index)
    end
    expected(what, "invalid token", index)
  end

  local decode_value

  local function descend(depth)
    if depth > decode_depth then
      fail("Found too many nested data structures (" .. depth .. ") at character " .. at - 1)
    end
  end

  local function decode_object(depth)
    descend(depth)
    local object = {}
    local c = peek()
    if c == "}" then
      at = at + 1
      return object
    end
    while true do
      if c ~= "\"" then unexpected("object key string", c) end
      at = at + 1
      local key = string_token("object key string")
      c = peek()
      if c ~= ":" then unexpected("colon", c) end
      at = at + 1
      object[key] = decode_value(depth)
      c = peek()
      if c == "}" then
        at = at + 1
        return object
      end
      if c ~= "," then unexpected("comma or object end", c) end
      at = at + 1
      c = peek()
    end
  end

  local function decode_array(depth)
    descend(depth)
    local array, size = {}, 0
    if peek() == "]" then
      at = at + 1
      return array
    end
    while true do
      size = size + 1
      array[size] = decode_value(depth)
      local c = peek()
      if c == "]" then
        at = at + 1
        return array
      end
      if c ~= "," then unexpected("comma or array end", c) end
      at = at + 1
    end
  end

  function decode_value(depth)
    local c = peek()
    if c == "\"" then
      at = at + 1
      return string_token("value")
    elseif find(c, "^[-%d]") then
      if not decode_invalid and is_invalid_number() then wrong("value", "invalid number") end
      return number_token("value")
    elseif c == "{" then
      at = at + 1
      return decode_object(depth + 1)
    elseif c == "[" then
      at = at + 1
      return decode_array(depth + 1)
    elseif find(text, "^true", at) then
      at = at + 4
      return true
    elseif find(text, "^false", at) then
      at = at + 5
      return false
    elseif find(text, "^null", at) then
      at = at + 4
      return null
    elseif decode_invalid and find(c, "^[+iInN]") and is_invalid_number() then
      return number_token("value")
    end
    return unexpected("value", c)
  end

  local function decode(...)
    local input = one_argument(...)
    if type(input) == "number" then input = tostring(input) end
    if type(input) ~= "string" then
      bad_argument(1, "string expected, got " .. type(input))
    end
    if #input >= 2 and (byte(input, 1) == 0 or byte(input, 2) == 0) then
      fail("JSON parser does not support UTF-16 or UTF-32")
    end
    text, at = input, 1
    local value = decode_value(0)
    local c = peek()
    if c ~= "" then unexpected("the end", c) end
    text = nil
    return value
  end

  -- -- settings ------------------------------------------------------------------------------

  local function integer(number, value, low, high, old)
    if value == nil then return old end
    local new_value = tonumber(value)
    if not new_value then bad_argument(number, "number expected, got " .. type(value)) end
    if new_value ~= new_value then new_value = 0 end -- as in C; NaN would pass both limits
    if new_value < low or new_value > high then
      bad_argument(number, format("expected integer between %d and %d", low, high))
    end
    return floor(new_value)
  end

  local function one_of(number, value, old, extra)
    if value == nil then return old end
    if type(value) == "boolean" then return value end
    if value == "on" then return true end
    if value == "off" then return false end
    if extra and value == extra then return extra end
    bad_argument(number, "invalid option '" .. tostring(value) .. "'")
  end

  return {
    _NAME = "cjson", _VERSION = "2.1.0", null = null, encode = encode, decode = decode,
    encode_sparse_array = function(convert, ratio, safe)
      convert_sparse = one_of(1, convert, convert_sparse)
      sparse_ratio = integer(2, ratio, 0, 2147483647, sparse_ratio)
      sparse_safe = integer(3, safe, 0, 2147483647, sparse_safe)
      return convert_sparse, sparse_ratio, sparse_safe
    end,
    encode_max_depth = function(depth)
      encode_depth = integer(1, depth, 1, 2147483647, encode_depth)
      return encode_depth
    end,
    decode_max_depth = function(depth)
      decode_depth = integer(1, depth, 1, 2147483647, decode_depth)
      return decode_depth
    end,
    encode_number_precision = function(digits)
      precision = integer(1, digits, 1, 14, precision)
      number_format = "%." .. precision .. "g"
      return precision
    end,
    encode_keep_buffer = function(keep)
      keep_buffer = one_of(1, keep, keep_buffer)
      return keep_buffer
    end,
    encode_invalid_numbers = function(mode)
      encode_invalid = one_of(1, mode, encode_invalid, "null")
      return encode_invalid
    end,
    decode_invalid_numbers = function(mode)
      decode_invalid = one_of(1, mode, decode_invalid)
      return decode_invalid
    end,
  }
end

local library = new()
library.new = function()
  local instance = new()
  instance.new = library.new
  return instance
end
return library
