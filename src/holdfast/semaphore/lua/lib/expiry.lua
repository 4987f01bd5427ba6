-- Keys live a while longer than what is in them, so that they go away when nobody is left to
-- remove them. A life is never shortened: somebody with a longer time limit may need the key.
-- Twice the need is set and only once the need insisted on, so that most calls write nothing here.
local function need_of(heartbeat_s, ttl_s)
  return math.max(heartbeat_s, ttl_s or 0)
end

local function life_ms(need_s)
  return math.ceil(2000 * need_s)
end

-- Whether the key's life had to be prolonged.
local function keep(key, need_s)
  if redis.call('PTTL', key) >= 1000 * need_s then
    return false
  end
  redis.call('PEXPIRE', key, life_ms(need_s))
  return true
end
