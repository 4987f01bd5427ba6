-- Gives a slot back, or a place in the queue.
-- KEYS[1] main                 ZSET: until when each holder is believed alive
-- KEYS[2] ttl                  ZSET: until when each may hold
-- KEYS[3] waiting              ZSET: when each came
-- KEYS[4] waiting_heartbeat    ZSET: until when each is believed alive
-- ARGV[1] acquisition_id
-- Returns 1 if it had a slot, else 0.
-- @include remove
local removed = redis.call('ZREM', KEYS[1], ARGV[1])
forget(KEYS[2], KEYS[3], KEYS[4], ARGV[1])
return removed
