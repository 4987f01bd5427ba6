-- Gives a slot back, or a place in the queue.
-- KEYS[1] main                 ZSET: holders, by the end of their leases
-- KEYS[2] ttl                  ZSET: holders, by the end of their time limits
-- KEYS[3] waiting              ZSET: waiters, by their arrival
-- KEYS[4] waiting_heartbeat    ZSET: waiters, by the end of their leases
-- ARGV[1] acquisition_id
-- Returns 1 if the acquisition had a slot, else 0.
-- @include remove
local removed = redis.call('ZREM', KEYS[1], ARGV[1])
forget(KEYS[2], KEYS[3], KEYS[4], ARGV[1])
return removed
