-- The order in which Redis's Lua walks over a small table. That of this Lua is another one in each process.
-- The order is that of Redis unless two keys have the same place in its hash table. Then the key that came
-- first has it, and nothing here knows which one that was; the order is the same each time nevertheless.

local byte, next, rawget, sort, type = string.byte, next, rawget, table.sort, type
local band, bxor, lshift, rshift = bit.band, bit.bxor, bit.lshift, bit.rshift

local MOST = 32 -- keys; it takes too long to order more

-- The hash of a string in Lua 5.1.
local function hash(text)
  local length = #text
  local number, step = length, rshift(length, 5) + 1
  for at = length, step, -step do
    number = bxor(number, lshift(number, 5) + rshift(number, 2) + byte(text, at))
  end
  return number
end

-- The keys by their place, from 0 on. Without `is_last_try`, nil if two of them want the same place.
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
        places[free] = other -- it was there for want of a place of its own
      end
    end
    places[place] = key
  end
  return places, size
end

-- An iterator for `for`, as `next` is, over any table.
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
