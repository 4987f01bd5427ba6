-- Removes those whose time is over from a set, and from the other set that knows them.
local function purge(key, other, now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', now)) do
    redis.call('ZREM', key, id)
    redis.call('ZREM', other, id)
  end
end

-- Takes slots from those who overran their time limit, and from those who died.
local function purge_slots(main, ttl, now)
  purge(ttl, main, now)
  purge(main, ttl, now)
end

-- Takes their places from waiters that died.
local function purge_waiting(waiting, waiting_heartbeat, now)
  purge(waiting_heartbeat, waiting, now)
end
