-- What a semaphore looks like now.
-- KEYS[1] main                 ZSET: until when each holder is believed alive
-- KEYS[2] ttl                  ZSET: until when each may hold
-- KEYS[3] max                  STRING: the limit
-- KEYS[4] waiting              ZSET: when each came
-- KEYS[5] waiting_heartbeat    ZSET: until when each is believed alive
-- ARGV[1] now                  seconds; empty for the server's time
-- Returns {card, waiting, limit}: how many hold, how many wait, and the limit, 0 if unused.
-- @include clock
-- @include limit
-- @include purge
local now = time_of(ARGV[1])
purge_slots(KEYS[1], KEYS[2], now)
purge_waiting(KEYS[4], KEYS[5], now)
local card, waiting = redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[4])
return {card, waiting, card + waiting > 0 and limit_of(KEYS[3], 0) or 0}
