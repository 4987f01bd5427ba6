-- Takes a slot, or confirms the one that was given, or waits: the way in, as often as need be.
-- It is queue, wake_up_nexts and acquire in one call, and asking twice is asking once.
-- KEYS[1] main                 ZSET: until when each holder is believed alive
-- KEYS[2] ttl                  ZSET: until when each may hold
-- KEYS[3] max                  STRING: the limit
-- KEYS[4] waiting              ZSET: when each came
-- KEYS[5] waiting_heartbeat    ZSET: until when each is believed alive
-- KEYS[6] token                STRING: the last fencing token
-- ARGV[1] acquisition_id
-- ARGV[2] limit                slots
-- ARGV[3] heartbeat_max_interval    seconds
-- ARGV[4] ttl                  seconds; empty for none
-- ARGV[5] now                  seconds; empty for the server's time
-- ARGV[6] acquisition_notification_key_pattern    with @@@ACQUISITION_ID@@@ in it
-- Returns {1, card, token}: it holds a slot; {0, card, token}: it waits, and
-- that was the last token of all; {-1, limit}: the limit is another. On an active-active database
-- one more element comes behind the token.
-- @include clock
-- @include expiry
-- @include hold
-- @include numbers
-- @include token
local main, ttl, max, waiting, waiting_heartbeat = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id = ARGV[1]
local limit = whole('limit', ARGV[2])
local heartbeat_s = positive('heartbeat_max_interval', ARGV[3])
local ttl_s = optional('ttl', ARGV[4])
local now = time_of(ARGV[5])
local need_s = need_of(heartbeat_s, ttl_s)

-- Nobody holds, nobody waits. What only the rest needs is defined below: that takes time, too.
if redis.call('EXISTS', main, waiting) == 0 then
  redis.call('SET', max, limit, 'PX', life_ms(need_s))
  redis.call('ZADD', main, now + heartbeat_s, id)
  redis.call('PEXPIRE', main, life_ms(need_s))
  start_ttl(ttl, id, ttl_s, now)
  return {1, 1, next_token(KEYS[6], now), redis.ACTIVE_ACTIVE}
end

-- @include enqueue
-- @include limit
-- @include wake
local function hold()
  redis.call('ZADD', main, now + heartbeat_s, id)
  if keep(main, need_s) then
    remember_limit(max, limit, need_s)
  end
  start_ttl(ttl, id, ttl_s, now)
  return {1, redis.call('ZCARD', main), next_token(KEYS[6], now), redis.ACTIVE_ACTIVE}
end

if redis.call('ZSCORE', main, id) then
  return hold()
end
purge_slots(main, ttl, now)
local stored = limit_of(max, limit)
if stored ~= limit and not redis.call('ZSCORE', waiting, id) then
  purge_waiting(waiting, waiting_heartbeat, now)
  if redis.call('EXISTS', main, waiting) > 0 then
    return {-1, stored}
  end
  redis.call('DEL', max)
  stored = limit
end
local free = stored - redis.call('ZCARD', main)
if free > 0 then
  free = free - wake_up_nexts(
    main, ttl, waiting, waiting_heartbeat, stored, heartbeat_s, ttl_s, now, ARGV[6], KEYS[6]
  )
  if free > 0 or redis.call('ZSCORE', main, id) then
    return hold()
  end
end
if enqueue(waiting, waiting_heartbeat, id, heartbeat_s, ttl_s, now) then
  remember_limit(max, stored, need_s)
end
return {0, stored - free, last_token(KEYS[6]), redis.ACTIVE_ACTIVE}
