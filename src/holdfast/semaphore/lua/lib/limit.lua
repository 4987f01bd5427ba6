-- @include expiry

-- The limit is what the server says while anybody holds or waits, and is forgotten after that.
local function limit_of(max, given)
  return tonumber(redis.call('GET', max) or given)
end

local function remember_limit(max, limit, need_s)
  if not redis.call('SET', max, limit, 'NX', 'PX', life_ms(need_s)) then
    keep(max, need_s)
  end
end

local function forget_if_unused(main, max, waiting)
  if redis.call('EXISTS', main, waiting) == 0 then
    redis.call('DEL', max)
  end
end
