-- @include expiry

-- Puts an id at the end of the queue; one that is there already keeps its place. Those who come
-- in the same moment, or after the clock was set back, still come behind one another. Whether
-- the lives of the keys had to be prolonged.
local function enqueue(waiting, waiting_heartbeat, id, heartbeat_s, ttl_s, now)
  local is_new = redis.call('ZADD', waiting, 'NX', now, id) == 1
  if is_new and redis.call('ZREVRANK', waiting, id) > 0 then
    local last = redis.call('ZRANGE', waiting, -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', waiting, last + 0.000001, id)
  end
  redis.call('ZADD', waiting_heartbeat, now + heartbeat_s, id)
  local need_s = need_of(heartbeat_s, ttl_s)
  if not keep(waiting, need_s) then -- nor is it due for the other, which comes and goes with it
    return false
  end
  keep(waiting_heartbeat, need_s)
  return true
end
