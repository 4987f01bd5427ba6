-- Sets the limit for all clients, whatever limit they give, and lets in waiters for whom there is
-- room now. The limit stays when the semaphore is idle. Holders beyond a smaller limit stay until
-- they release. Without a limit the one that was set is forgotten once the semaphore is idle.
-- KEYS[1] main                 ZSET: until when each holder is believed alive
-- KEYS[2] ttl                  ZSET: until when each may hold
-- KEYS[3] max                  STRING: the limit
-- KEYS[4] waiting              ZSET: when each came
-- KEYS[5] waiting_heartbeat    ZSET: until when each is believed alive
-- KEYS[6] token                STRING: the last fencing token
-- ARGV[1] limit                slots; empty to forget the one that was set
-- ARGV[2] heartbeat_max_interval    seconds
-- ARGV[3] ttl                  seconds; empty for none
-- ARGV[4] now                  seconds; empty for the server's time
-- ARGV[5] acquisition_notification_key_pattern    with @@@ACQUISITION_ID@@@ in it
-- Returns how many were told.
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
  redis.call('SET', max, limit) -- without an expiry: see lib/limit
else
  keep(max, need_of(heartbeat_s, ttl_s))
  limit = limit_of(max, 0)
end
return wake_up_nexts(
  main, ttl, waiting, waiting_heartbeat, limit, heartbeat_s, ttl_s, now, ARGV[5], KEYS[6]
)
