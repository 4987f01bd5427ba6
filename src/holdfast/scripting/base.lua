-- The standard functions of Lua that scripts may call, with the behaviour of Lua 5.1. LuaJIT's own
-- function is used where it behaves the same; else a function here wraps it.

local python, G, ENV, behind = ...

local fail, bad_argument, nested, watch = python.fail, python.bad_argument, python.nested, python.watch
local error, type, select, tostring, tonumber, ipairs = error, type, select, tostring, tonumber, ipairs
local raw_pairs, raw_next, raw_rawget, raw_rawset, raw_setmetatable = pairs, next, rawget, rawset, setmetatable
local raw_load, raw_pcall, raw_insert, collect = load, pcall, table.insert, collectgarbage
local sub, gsub, floor, ceil = string.sub, string.gsub, math.floor, math.ceil
local survived, READ_ONLY = python.survived, python.READ_ONLY

-- Raises an error if an argument is missing. Without this check it would count as nil.
local function present(kind, ...)
  if select("#", ...) == 0 then bad_argument(1, kind .. " expected, got no value") end
  return ...
end

function G.assert(...)
  local holds, message = ...
  if holds then return ... end
  local count = select("#", ...)
  if count == 0 then bad_argument(1, "value expected") end
  if count == 1 or message == nil then message = "assertion failed!" end
  if type(message) ~= "string" and type(message) ~= "number" then
    bad_argument(2, "string expected, got " .. type(message))
  end
  fail(python.c_string(message))
end

-- -- tables -------------------------------------------------------------------------------------

local function iterate(proxy)
  local content = behind[proxy]
  return function(_, key) return raw_next(content, key) end, proxy, nil
end

function G.pairs(...)
  if behind[(...)] then return iterate((...)) end
  return raw_pairs(present("table", ...))
end
function G.ipairs(...) return ipairs(present("table", ...)) end
function G.next(...)
  local subject, key = present("table", ...)
  return raw_next(behind[subject] or subject, key)
end
function G.rawget(...)
  local subject, key = present("table", ...)
  if behind[subject] then subject = behind[subject] end
  return raw_rawget(subject, key)
end
function G.rawset(...)
  if behind[(...)] then error(READ_ONLY, 0) end
  return raw_rawset(...)
end
function G.setmetatable(...)
  if behind[(...)] then error(READ_ONLY, 0) end
  return raw_setmetatable(present("table", ...))
end

-- The most elements that C may move, and the most that it may sort, in one call. No hook runs in C, so nothing
-- can interrupt such a call. At worst it takes a second.
local MUCH, MOST_SORTED = 1e6, 1e4

local tables = python.only(table, "concat maxn")
local sort = nested(table.sort)
local function is_less(a, b) return a < b end
-- For a hostile list, C's sort takes n^2 comparisons. If a Lua function compares, each comparison takes some
-- Lua instructions, so the hook runs, and the sort can be interrupted.
function tables.sort(...)
  local list, order = present("table", ...)
  if order == nil and type(list) == "table" and #list > MOST_SORTED then return sort(list, is_less) end
  return sort(...)
end
local foreach, foreachi = nested(table.foreach), nested(table.foreachi)
function tables.foreach(...) return foreach(present("table", ...)) end
function tables.foreachi(...) return foreachi(present("table", ...)) end
-- Converts a position in the way of luaL_checkint.
local function as_int(number)
  if not (number > -2 ^ 63 and number < 2 ^ 63) then return 0 end
  number = (number < 0 and ceil(number) or floor(number)) % 2 ^ 32
  return number < 2 ^ 31 and number or number - 2 ^ 32
end
function tables.insert(...)
  local list, position, value = present("table", ...)
  if behind[list] then error(READ_ONLY, 0) end
  if select("#", ...) ~= 3 or type(list) ~= "table" or not tonumber(position) then return raw_insert(...) end
  position = as_int(tonumber(position))
  local last = #list + 1
  if last - position < MUCH then return raw_insert(list, position, value) end
  for index = last, position + 1, -1 do raw_rawset(list, index, raw_rawget(list, index - 1)) end
  raw_rawset(list, position, value)
end
local remove, getn = table.remove, table.getn
function tables.remove(...) return remove(present("table", ...)) end
function tables.getn(...) return getn(present("table", ...)) end
function tables.setn() error("'setn' is obsolete", 2) end

-- -- code and memory ----------------------------------------------------------------------------

-- Scripts must not be able to stop the collector.
function G.collectgarbage(what, argument)
  if what == "count" then return collect("count") end
  if what == nil or what == "collect" or what == "step" then return collect(what, argument) end
  return 0
end

-- The parser is slow for some texts: for each element of a chain of `or` it walks through the whole chain. No
-- hook runs while it parses. So the parser gets the text in pieces, and the clock is checked before each piece.
local PIECE_BYTES = 4096
local function in_pieces(read)
  local text, at = "", 1
  return function()
    watch()
    if at > #text then
      local read_now = read()
      if type(read_now) ~= "string" or #read_now <= PIECE_BYTES then return read_now end
      text, at = read_now, 1
    end
    at = at + PIECE_BYTES
    return sub(text, at - PIECE_BYTES, at - 1)
  end
end

-- Loads text only. Bytecode is refused, because no check of bytecode is reliable. An error is raised again
-- here: LuaJIT's load() catches an error of the hook, but still believes that the hook runs, and then no hook
-- would ever run again. A pcall outside of the hook repairs that.
local function load_or_raise(read, name)
  local chunk, problem = raw_load(in_pieces(read), name, "t", ENV)
  if not chunk then error(problem, 0) end
  return chunk
end
local function loaded(ok, result)
  if ok then return result end
  result = python.presentable(result)
  return nil, type(result) == "string" and (gsub(result, "^holdfast:%d+: ", "")) or result
end
local function load_pieces(read, name) return loaded(survived(raw_pcall(load_or_raise, read, name))) end
local function compile(text, name)
  if #text <= PIECE_BYTES then return raw_load(text, name, "t", ENV) end
  return load_pieces(function()
    local whole = text
    text = ""
    return whole
  end, name)
end

function G.loadstring(...)
  local text, name = present("string", ...)
  if type(text) ~= "string" and type(text) ~= "number" then
    bad_argument(1, "string expected, got " .. type(text))
  end
  return compile(tostring(text), name or text)
end
G.load = nested(function(...)
  local read, name = present("function", ...)
  if type(read) ~= "function" then bad_argument(1, "function expected, got " .. type(read)) end
  return load_pieces(read, name or "=(load)")
end)

-- -- numbers ------------------------------------------------------------------------------------

local maths = python.only(math, [[abs acos asin atan atan2 cos cosh exp fmod frexp huge
  log log10 modf pi pow sin sinh sqrt tan tanh]])
maths.mod = math.fmod

-- Converts an argument in the way of luaL_checknumber.
local function number_at(index, count, value)
  local number = tonumber(value)
  if number then return number end
  bad_argument(index, "number expected, got " .. (index > count and "no value" or type(value)))
end

-- LuaJIT's functions do not check whether there is an argument. Without one they read old values of the stack.
function maths.floor(...) return floor(present("number", ...)) end
function maths.ceil(...) return ceil(present("number", ...)) end
function maths.deg(...) return number_at(1, select("#", ...), ...) / (math.pi / 180) end
function maths.rad(...) return number_at(1, select("#", ...), ...) * (math.pi / 180) end

-- LuaJIT's functions return another number than Lua 5.1 if one of the arguments is NaN.
function maths.min(...)
  local count, least, second = select("#", ...), ...
  if count == 2 and type(least) == "number" and type(second) == "number" then
    return second < least and second or least
  end
  local all = { ... }
  least = number_at(1, count, least)
  for index = 2, count do
    local number = number_at(index, count, all[index])
    if number < least then least = number end
  end
  return least
end
function maths.max(...)
  local count, most, second = select("#", ...), ...
  if count == 2 and type(most) == "number" and type(second) == "number" then
    return second > most and second or most
  end
  local all = { ... }
  most = number_at(1, count, most)
  for index = 2, count do
    local number = number_at(index, count, all[index])
    if number > most then most = number end
  end
  return most
end

local ldexp = math.ldexp
function maths.ldexp(...)
  local count, number, exponent = select("#", ...), ...
  exponent = number_at(2, count, exponent) -- C checks the second argument first
  return ldexp(number_at(1, count, number), exponent)
end

-- drand48, from its standard seed: the same numbers after every start, as in Redis.
local random_high, random_low = 0x1234ABCD, 0x330E
local function seed(number)
  random_high, random_low = number % 2 ^ 32, 0x330E
end
local function random31()
  -- 48 bits as 32 and 16, times 0x5DEECE66D as 0x5DEEC and 0xE66D: no product exceeds 2^53.
  local product = random_low * 0xE66D + 0xB
  local high = floor(product / 65536) + random_low * 0x5DEEC + random_high * 0xE66D
  random_high = (high + 65536 * (random_high * 0x5DEEC % 65536)) % 2 ^ 32
  random_low = product % 65536
  return floor(random_high / 2)
end
local function whole_at(index, count, value)
  local found = number_at(index, count, value)
  if found ~= found then return 0 end -- C converts NaN to 0
  return found < 0 and ceil(found) or floor(found)
end
function maths.random(...)
  local r = (random31() % 2147483647) / 2147483647
  local count, low, high = select("#", ...), ...
  if count == 0 then return r end
  if count > 2 then fail("wrong number of arguments") end
  low, high = whole_at(1, count, low), count == 2 and whole_at(2, count, high)
  if not high then low, high = 1, low end
  if low > high then bad_argument(count, "interval is empty") end
  return floor(r * (high - low + 1)) + low
end
function maths.randomseed(...) seed(whole_at(1, select("#", ...), ...)) end

return tables, maths, compile
