-- Gives free slots to the waiters that wait longest, and sends each a message.
-- KEYS[1] main                 ZSET: holders, by the end of their leases
-- KEYS[2] ttl                  ZSET: holders, by the end of their time limits
-- KEYS[3] waiting              ZSET: waiters, by their arrival
-- KEYS[4] waiting_heartbeat    ZSET: waiters, by the end of their leases
-- ARGV[1] limit                slots
-- ARGV[2] heartbeat_max_interval    seconds
-- ARGV[3] ttl                  seconds; empty for none
-- ARGV[4] now                  seconds; empty for the server's clock
-- ARGV[5] acquisition_notification_key_pattern    with @@@ACQUISITION_ID@@@ in it
-- Returns the number of waiters that got a slot.
-- @include clock
-- @include numbers
-- @include wake
local limit = whole('limit', ARGV[1])
local heartbeat_s = positive('heartbeat_max_interval', ARGV[2])
local ttl_s = optional('ttl', ARGV[3])
local now = time_of(ARGV[4])
return wake_up_nexts(KEYS[1], KEYS[2], KEYS[3], KEYS[4], limit, heartbeat_s, ttl_s, now, ARGV[5])
