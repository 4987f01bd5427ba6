-- @include expiry

-- The limit is what the server says while anybody holds or waits; after that it means nothing, and
-- expires.
local function limit_of(max, given)
  return tonumber(redis.call('GET', max) or given)
end

local function remember_limit(max, limit, need_s)
  if keep(max, need_s) and redis.call('EXISTS', max) == 0 then
    redis.call('SET', max, limit, 'PX', life_ms(need_s))
  end
end
