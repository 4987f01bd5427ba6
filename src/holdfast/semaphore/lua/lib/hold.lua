-- @include expiry

-- From when a slot is held, its time limit runs.
local function start_ttl(ttl, id, ttl_s, now)
  if ttl_s then
    redis.call('ZADD', ttl, now + ttl_s, id)
    keep(ttl, ttl_s)
  end
end
