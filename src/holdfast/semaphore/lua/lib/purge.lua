-- Removes members whose time is over from one set, and the same members from the other set.
local function purge(key, other, now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', now)) do
    redis.call('ZREM', key, id)
    redis.call('ZREM', other, id)
  end
end

-- Takes slots from holders that overran their time limit, and from dead holders.
local function purge_slots(main, ttl, now)
  purge(ttl, main, now)
  purge(main, ttl, now)
end

-- Removes dead waiters from the queue.
local function purge_waiting(waiting, waiting_heartbeat, now)
  purge(waiting_heartbeat, waiting, now)
end
