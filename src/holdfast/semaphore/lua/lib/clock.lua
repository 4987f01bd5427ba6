-- The time in seconds: the time that the caller gives, else the server's clock, which all clients
-- share.
local function time_of(given)
  if given and given ~= '' then
    return tonumber(given) or error('now is no number: ' .. given)
  end
  local time = redis.call('TIME')
  return time[1] + time[2] / 1000000
end
