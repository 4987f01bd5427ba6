-- Counts the slots that are taken.
-- KEYS[1] main                 ZSET: holders, by the end of their leases
-- KEYS[2] ttl                  ZSET: holders, by the end of their time limits
-- ARGV[1] now                  seconds; empty for the server's clock
-- Returns the number of taken slots.
-- @include clock
-- @include purge
purge_slots(KEYS[1], KEYS[2], time_of(ARGV[1]))
return redis.call('ZCARD', KEYS[1])
