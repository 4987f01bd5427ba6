-- @include expiry

-- The time limit of a slot begins when the slot is held.
local function start_ttl(ttl, id, ttl_s, now)
  if ttl_s then
    redis.call('ZADD', ttl, now + ttl_s, id)
    keep(ttl, ttl_s)
  end
end
