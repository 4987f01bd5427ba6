-- Sets the limit for all clients, and gives new slots to waiters. This limit overrides the limits
-- that clients give, and it stays when the semaphore is idle. Holders beyond a smaller limit keep
-- their slots until they release them. A call without a limit undoes an earlier resize: the limit
-- is deleted once the semaphore is idle.
-- KEYS[1] main                 ZSET: holders, by the end of their leases
-- KEYS[2] ttl                  ZSET: holders, by the end of their time limits
-- KEYS[3] max                  STRING: the limit
-- KEYS[4] waiting              ZSET: waiters, by their arrival
-- KEYS[5] waiting_heartbeat    ZSET: waiters, by the end of their leases
-- KEYS[6] token                STRING: the last fencing token
-- ARGV[1] limit                slots; empty to undo a resize
-- ARGV[2] heartbeat_max_interval    seconds
-- ARGV[3] ttl                  seconds; empty for none
-- ARGV[4] now                  seconds; empty for the server's clock
-- ARGV[5] acquisition_notification_key_pattern    with @@@ACQUISITION_ID@@@ in it
-- Returns the number of waiters that got a slot.
-- @include clock
-- @include numbers
-- @include limit
-- @include wake
local main, ttl, max, waiting, waiting_heartbeat = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local limit = optional_whole('limit', ARGV[1])
local heartbeat_s = positive('heartbeat_max_interval', ARGV[2])
local ttl_s = optional('ttl', ARGV[3])
local now = time_of(ARGV[4])
if limit then
  redis.call('SET', max, limit) -- without an expiry: see lib/limit.lua
else
  keep(max, need_of(heartbeat_s, ttl_s))
  limit = limit_of(max, 0)
end
return wake_up_nexts(
  main, ttl, waiting, waiting_heartbeat, limit, heartbeat_s, ttl_s, now, ARGV[5], KEYS[6]
)
