-- Takes a slot, or confirms a granted slot, or waits. This script does the work of queue,
-- wake_up_nexts and acquire in one call. It can be called again at any time: two calls have the
-- effect of one.
-- KEYS[1] main                 ZSET: holders, by the end of their leases
-- KEYS[2] ttl                  ZSET: holders, by the end of their time limits
-- KEYS[3] max                  STRING: the limit
-- KEYS[4] waiting              ZSET: waiters, by their arrival
-- KEYS[5] waiting_heartbeat    ZSET: waiters, by the end of their leases
-- KEYS[6] token                STRING: the last fencing token
-- ARGV[1] acquisition_id
-- ARGV[2] limit                slots; empty for the limit that the server has
-- ARGV[3] heartbeat_max_interval    seconds
-- ARGV[4] ttl                  seconds; empty for none
-- ARGV[5] now                  seconds; empty for the server's clock
-- ARGV[6] acquisition_notification_key_pattern    with @@@ACQUISITION_ID@@@ in it
-- ARGV[7] is_exact             1 to refuse any other limit, also after a resize; or empty
-- Returns {1, card, token}: the acquisition holds a slot. {0, card, token}: the acquisition waits,
-- and the token is the last token of the semaphore. {-1, limit}: the semaphore has another limit; 0
-- if it has none. On an active-active database one more element follows the token. The two most
-- frequent answers are numbers, because a table costs more than a redis.call: token for {1, 1,
-- token}, -token for {0, limit, token}.
local main, ttl, max, waiting, waiting_heartbeat, token = unpack(KEYS)
local id, limit_text, heartbeat_text, ttl_text, now_text, pattern, exact = unpack(ARGV)

-- The common case: no holder, no waiter, and the same settings as the last time. This code is above
-- the functions below, because to define them takes time, too.
local used = redis.call('EXISTS', main, waiting)
local known = used == 0 and redis.call('GET', max)
if known then
  local heartbeat_s, ttl_s = tonumber(heartbeat_text) or 0, tonumber(ttl_text) or 0
  local need_s = heartbeat_s < ttl_s and ttl_s or heartbeat_s
  local now = tonumber(now_text)
  if now_text == '' then
    local time = redis.call('TIME')
    now = time[1] + time[2] / 1000000
  end
  local is_right = now and heartbeat_s > 0 and (ttl_s > 0 or ttl_text == '') and need_s < 1e10
  local life_ms = redis.call('PTTL', max)
  local is_same = known == limit_text or limit_text == ''
  -- A limit without an expiry was set by resize, and overrides the limit of the caller.
  local is_set = life_ms == -1 and (is_same or exact == '')
  if is_right and (is_set or is_same and life_ms >= 1000 * need_s) then
    local given = redis.call('INCR', token)
    if given > 1 then
      redis.call('ZADD', main, now + heartbeat_s, id)
      redis.call('PEXPIRE', main, math.ceil(2000 * need_s))
      if ttl_s > 0 then
        redis.call('ZADD', ttl, now + ttl_s, id)
        redis.call('PEXPIRE', ttl, math.ceil(2000 * ttl_s))
      end
      return redis.ACTIVE_ACTIVE and {1, 1, given, redis.ACTIVE_ACTIVE} or given
    end
  end
end

-- @include clock
-- @include expiry
-- @include hold
-- @include numbers
-- @include token
local limit = optional_whole('limit', limit_text)
local heartbeat_s = positive('heartbeat_max_interval', heartbeat_text)
local ttl_s = optional('ttl', ttl_text)
local now = time_of(now_text)
local need_s = need_of(heartbeat_s, ttl_s)

-- @include enqueue
-- @include give
-- @include limit
-- @include purge
local function hold(card)
  card = card + redis.call('ZADD', main, now + heartbeat_s, id)
  if keep(main, need_s) then
    remember_limit(max, limit_of(max, limit), need_s)
  end
  start_ttl(ttl, id, ttl_s, now)
  return {1, card, next_token(token, now), redis.ACTIVE_ACTIVE}
end

if redis.call('ZSCORE', main, id) then
  return hold(redis.call('ZCARD', main))
end
local function has_no_living_waiter()
  local last = redis.call('ZRANGE', waiting_heartbeat, -1, -1, 'WITHSCORES')[2]
  return not last or tonumber(last) <= now
end
if used == 1 or used == 2 and has_no_living_waiter() then -- else a living waiter removes dead holders
  purge_slots(main, ttl, now)
end
local stored = limit_of(max, limit)
if not stored then
  return {-1, 0}
end
local is_other = limit and stored ~= limit and not redis.call('ZSCORE', waiting, id)
if is_other and is_resized(max) then
  if exact ~= '' then
    return {-1, stored}
  end
elseif is_other then
  purge_slots(main, ttl, now)
  purge_waiting(waiting, waiting_heartbeat, now)
  if redis.call('EXISTS', main, waiting) > 0 then
    return {-1, stored}
  end
  redis.call('DEL', max)
  stored = limit
end
local card = redis.call('ZCARD', main)
if card < stored then
  card = card + give_slots(
    main, waiting, waiting_heartbeat, card, stored, heartbeat_s, ttl_s, now, pattern, token
  )
  if card < stored or redis.call('ZSCORE', main, id) then
    return hold(card)
  end
end
if enqueue(waiting, waiting_heartbeat, id, heartbeat_s, ttl_s, now) then
  remember_limit(max, stored, need_s)
end
local last = last_token(token)
return redis.ACTIVE_ACTIVE and {0, card, last, redis.ACTIVE_ACTIVE} or -last
