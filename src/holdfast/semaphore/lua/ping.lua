-- Prolongs the lease of an acquisition. Its place in the queue does not change.
-- KEYS[1] waiting              ZSET: waiters, by their arrival
-- KEYS[2] waiting_heartbeat    ZSET: waiters, by the end of their leases
-- KEYS[3] main                 ZSET: holders, by the end of their leases
-- ARGV[1] acquisition_id
-- ARGV[2] heartbeat_max_interval    seconds
-- ARGV[3] ttl                  seconds; empty for none
-- ARGV[4] now                  seconds; empty for the server's clock
-- Returns {changed_waiting, changed_semaphore}: 1 for the set that has the acquisition; {0, 0} if
-- the acquisition was given up.
-- @include clock
-- @include numbers
-- @include expiry
-- @include refresh
local id = ARGV[1]
local heartbeat_s = positive('heartbeat_max_interval', ARGV[2])
local need_s = need_of(heartbeat_s, optional('ttl', ARGV[3]))
local until_s = time_of(ARGV[4]) + heartbeat_s
for _, key in ipairs(KEYS) do
  keep(key, need_s)
end
return {refresh(KEYS[2], id, until_s), refresh(KEYS[3], id, until_s)}
