-- The state of a semaphore.
-- KEYS[1] main                 ZSET: holders, by the end of their leases
-- KEYS[2] ttl                  ZSET: holders, by the end of their time limits
-- KEYS[3] max                  STRING: the limit
-- KEYS[4] waiting              ZSET: waiters, by their arrival
-- KEYS[5] waiting_heartbeat    ZSET: waiters, by the end of their leases
-- ARGV[1] now                  seconds; empty for the server's clock
-- Returns {card, waiting, limit}: the number of holders, the number of waiters, and the limit; 0 if
-- there are neither.
-- @include clock
-- @include limit
-- @include purge
local now = time_of(ARGV[1])
purge_slots(KEYS[1], KEYS[2], now)
purge_waiting(KEYS[4], KEYS[5], now)
local card, waiting = redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[4])
return {card, waiting, card + waiting > 0 and limit_of(KEYS[3], 0) or 0}
