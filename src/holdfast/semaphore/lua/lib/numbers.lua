-- Arguments are checked before the first write, because Redis does not undo the writes of a script
-- that fails.
local function positive(what, text)
  local value = tonumber(text)
  if not value or not (value > 0 and value < 1e10) then
    error(what .. ' must be a number above 0: ' .. tostring(text))
  end
  return value
end

local function whole(what, text)
  local value = positive(what, text)
  if value % 1 ~= 0 then
    error(what .. ' must be a whole number: ' .. text)
  end
  return value
end

-- A time limit in seconds; empty means none.
local function optional(what, text)
  return text ~= '' and positive(what, text) or nil
end

-- A number of slots; empty means the limit that the server has.
local function optional_whole(what, text)
  return text ~= '' and whole(what, text) or nil
end
