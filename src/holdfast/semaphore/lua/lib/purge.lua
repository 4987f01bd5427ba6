-- Takes slots from those who overran their time limit, and from those who died.
local function purge_slots(main, ttl, now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', ttl, '-inf', now)) do
    redis.call('ZREM', main, id)
    redis.call('ZREM', ttl, id)
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', main, '-inf', now)) do
    redis.call('ZREM', main, id)
    redis.call('ZREM', ttl, id)
  end
end

-- Takes their places from waiters that died.
local function purge_waiting(waiting, waiting_heartbeat, now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', waiting_heartbeat, '-inf', now)) do
    redis.call('ZREM', waiting, id)
    redis.call('ZREM', waiting_heartbeat, id)
  end
end
