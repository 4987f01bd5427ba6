-- @include expiry

-- Puts an id at the end of the queue; an id that is in the queue already keeps its place. A new id
-- is the last one also if another id came in the same moment, or if the clock was set back. Returns
-- whether the expiry of the keys was prolonged.
local function enqueue(waiting, waiting_heartbeat, id, heartbeat_s, ttl_s, now)
  local is_new = redis.call('ZADD', waiting, 'NX', now, id) == 1
  if is_new and redis.call('ZREVRANK', waiting, id) > 0 then
    local last = redis.call('ZRANGE', waiting, -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', waiting, last + 0.000001, id)
  end
  redis.call('ZADD', waiting_heartbeat, now + heartbeat_s, id)
  local need_s = need_of(heartbeat_s, ttl_s)
  if not keep(waiting, need_s) then -- both keys have the same expiry, so neither is due
    return false
  end
  keep(waiting_heartbeat, need_s)
  return true
end
