-- A key expires some time after its members end. So the key goes away when no client is left to
-- remove it. An expiry is never shortened: a client with a longer time limit may need the key. An
-- expiry is set to twice the needed time, and renewed only when less than the needed time is left,
-- so most calls write nothing.
local function need_of(heartbeat_s, ttl_s)
  return math.max(heartbeat_s, ttl_s or 0)
end

local function life_ms(need_s)
  return math.ceil(2000 * need_s)
end

-- Returns whether the expiry was prolonged.
local function keep(key, need_s)
  if redis.call('PTTL', key) >= 1000 * need_s then
    return false
  end
  redis.call('PEXPIRE', key, life_ms(need_s))
  return true
end
