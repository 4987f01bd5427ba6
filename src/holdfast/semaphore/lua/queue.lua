-- Puts an acquisition into both waiting queues.
-- KEYS[1] waiting              ZSET: waiters, by their arrival
-- KEYS[2] waiting_heartbeat    ZSET: waiters, by the end of their leases
-- ARGV[1] acquisition_id
-- ARGV[2] heartbeat_max_interval    seconds
-- ARGV[3] ttl                  seconds; empty for none
-- ARGV[4] now                  seconds; empty for the server's clock
-- Returns nothing.
-- @include clock
-- @include numbers
-- @include enqueue
local heartbeat_s = positive('heartbeat_max_interval', ARGV[2])
local ttl_s = optional('ttl', ARGV[3])
enqueue(KEYS[1], KEYS[2], ARGV[1], heartbeat_s, ttl_s, time_of(ARGV[4]))
