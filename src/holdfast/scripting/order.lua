-- Walks over a small table in the order of Redis's Lua. (The order of LuaJIT is another one in each process.)
-- The order equals that of Redis, unless two keys have the same place in Redis's hash table. There the key that
-- came first has the place, but the order in which keys came is not known here. So the order may then differ
-- from Redis's, but it is the same each time.

local byte, next, rawget, sort, type = string.byte, next, rawget, table.sort, type
local band, bxor, lshift, rshift = bit.band, bit.bxor, bit.lshift, bit.rshift

local MOST = 32 -- keys; to order more would take too long

-- The hash of a string in Lua 5.1.
local function hash(text)
  local length = #text
  local number, step = length, rshift(length, 5) + 1
  for at = length, step, -step do
    number = bxor(number, lshift(number, 5) + rshift(number, 2) + byte(text, at))
  end
  return number
end

-- The keys by their places, from 0 on. If two keys have the same place: nil, unless this is the last try.
local function placed(keys, count, is_last_try)
  local size = 1
  while size < count do size = size * 2 end
  local places, free = {}, size
  for number = 1, count do
    local key = keys[number]
    local place = band(hash(key), size - 1)
    local other = places[place]
    if other then
      if not is_last_try then return nil end
      repeat free = free - 1 until places[free] == nil
      if band(hash(other), size - 1) == place then
        place = free
      else
        places[free] = other -- that key has another place, which was taken
      end
    end
    places[place] = key
  end
  return places, size
end

-- Returns an iterator for `for` over any table, as `next` is one.
return function(table)
  local keys, count = {}, 0
  for key in next, table do
    count = count + 1
    if count > MOST or type(key) ~= "string" then return next, table end
    keys[count] = key
  end
  if count < 2 then return next, table end
  local places, size = placed(keys, count, false)
  if not places then
    sort(keys)
    places, size = placed(keys, count, true)
  end
  local place = -1
  return function()
    local key
    repeat
      place = place + 1
      key = places[place]
    until key or place >= size
    if key then return key, rawget(table, key) end
  end
end
