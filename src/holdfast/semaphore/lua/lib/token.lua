-- Fencing tokens count up from the time at which their key was created, in microseconds. A grant
-- takes longer than a microsecond, so a new key starts above all earlier tokens. (Not if the clock
-- of the server was set back by more than an hour: the key is kept for an hour.) A key with the
-- value 1 is new, too: enter.lua may have counted it without a grant.
local function next_token(token, now)
  local value = redis.call('INCR', token)
  if value < 3 then
    value = math.floor(now * 1000000 + 0.5)
    redis.call('SET', token, string.format('%.0f', value), 'PX', 3600000)
  end
  return value
end

local function last_token(token)
  return tonumber(redis.call('GET', token) or 0)
end
