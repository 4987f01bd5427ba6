-- Removes an id from the queue, and with it what is known about it beside its slot.
local function forget(ttl, waiting, waiting_heartbeat, id)
  redis.call('ZREM', ttl, id)
  redis.call('ZREM', waiting, id)
  redis.call('ZREM', waiting_heartbeat, id)
end
