-- Confirms a granted slot: from now on the acquisition holds it.
-- KEYS[1] main                 ZSET: holders, by the end of their leases
-- KEYS[2] ttl                  ZSET: holders, by the end of their time limits
-- KEYS[3] max                  STRING: the limit
-- ARGV[1] acquisition_id
-- ARGV[2] limit                slots
-- ARGV[3] heartbeat_max_interval    seconds
-- ARGV[4] ttl                  seconds; empty for none
-- ARGV[5] now                  seconds; empty for the server's clock
-- Returns {changed, card}: changed is 0 if the slot was lost meanwhile, else 1; card is the number
-- of taken slots.
-- @include clock
-- @include numbers
-- @include hold
-- @include limit
-- @include refresh
local id = ARGV[1]
local limit = whole('limit', ARGV[2])
local heartbeat_s = positive('heartbeat_max_interval', ARGV[3])
local ttl_s = optional('ttl', ARGV[4])
local now = time_of(ARGV[5])
local changed = refresh(KEYS[1], id, now + heartbeat_s)
if changed == 1 then
  start_ttl(KEYS[2], id, ttl_s, now)
  keep(KEYS[1], need_of(heartbeat_s, ttl_s))
end
if not is_resized(KEYS[3]) then
  redis.call('SET', KEYS[3], limit, 'KEEPTTL')
  keep(KEYS[3], need_of(heartbeat_s, ttl_s))
end
return {changed, redis.call('ZCARD', KEYS[1])}
