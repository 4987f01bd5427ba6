-- Fencing tokens count up from the time at which their key was made, in microseconds: grants take
-- longer than that, so a key that is made anew starts above all tokens before it, unless the
-- server's clock was set back by more than the hour for which the key is kept. It may have counted
-- to 1 in vain before: see enter.
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
