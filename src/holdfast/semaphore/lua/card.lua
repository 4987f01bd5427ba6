-- Counts the slots that are taken.
-- KEYS[1] main                 ZSET: until when each holder is believed alive
-- KEYS[2] ttl                  ZSET: until when each may hold
-- ARGV[1] now                  seconds; empty for the server's time
-- Returns how many are taken.
-- @include clock
-- @include purge
purge_slots(KEYS[1], KEYS[2], time_of(ARGV[1]))
return redis.call('ZCARD', KEYS[1])
