-- Removes an id from the queue, and all data about it except its slot.
local function forget(ttl, waiting, waiting_heartbeat, id)
  redis.call('ZREM', ttl, id)
  redis.call('ZREM', waiting, id)
  redis.call('ZREM', waiting_heartbeat, id)
end
