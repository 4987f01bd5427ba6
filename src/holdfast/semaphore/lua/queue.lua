-- Puts an acquisition into both waiting queues.
-- KEYS[1] waiting              ZSET: when each came
-- KEYS[2] waiting_heartbeat    ZSET: until when each is believed alive
-- ARGV[1] acquisition_id
-- ARGV[2] heartbeat_max_interval    seconds
-- ARGV[3] ttl                  seconds; empty for none
-- ARGV[4] now                  seconds; empty for the server's time
-- Returns nothing.
-- @include clock
-- @include numbers
-- @include enqueue
local heartbeat_s = positive('heartbeat_max_interval', ARGV[2])
local ttl_s = optional('ttl', ARGV[3])
enqueue(KEYS[1], KEYS[2], ARGV[1], heartbeat_s, ttl_s, time_of(ARGV[4]))
