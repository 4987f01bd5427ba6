-- @include expiry

-- The limit is what the server says while anybody holds or waits; after that it means nothing, and
-- expires.
local function limit_of(max, given)
  return tonumber(redis.call('GET', max) or given)
end

local function remember_limit(max, limit, need_s)
  if not redis.call('SET', max, limit, 'NX', 'PX', life_ms(need_s)) then
    keep(max, need_s)
  end
end
