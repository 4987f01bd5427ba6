-- @include expiry

-- A limit that the first caller set is valid only while there is a holder or a waiter, and expires
-- after that. A limit that resize set has no expiry: it stays, and it overrides the limit of a
-- caller. (Older versions of these scripts give such a limit an expiry again.)
local function is_resized(max)
  return redis.call('TTL', max) == -1
end

-- The valid limit: the limit on the server, else the limit of the caller; nil if there is neither.
local function limit_of(max, given)
  return tonumber(redis.call('GET', max) or given)
end

local function keep_limit(max, need_s)
  return not is_resized(max) and keep(max, need_s)
end

local function remember_limit(max, limit, need_s)
  if keep_limit(max, need_s) and limit and redis.call('EXISTS', max) == 0 then
    redis.call('SET', max, limit, 'PX', life_ms(need_s))
  end
end
