-- Prolongs the leases of acquisitions, gives free slots to waiters, and returns the state of each
-- acquisition. This script does the work of many pings and of wake_up_nexts in one call.
-- KEYS[1] main                 ZSET: holders, by the end of their leases
-- KEYS[2] ttl                  ZSET: holders, by the end of their time limits
-- KEYS[3] max                  STRING: the limit
-- KEYS[4] waiting              ZSET: waiters, by their arrival
-- KEYS[5] waiting_heartbeat    ZSET: waiters, by the end of their leases
-- KEYS[6] token                STRING: the last fencing token
-- ARGV[1] limit                slots; empty for the limit that the server has
-- ARGV[2] heartbeat_max_interval    seconds
-- ARGV[3] ttl                  seconds; empty for none
-- ARGV[4] now                  seconds; empty for the server's clock
-- ARGV[5] acquisition_notification_key_pattern    with @@@ACQUISITION_ID@@@ in it
-- ARGV[6+] acquisition_ids
-- Returns {due_ms, token, state, …}: the time until the next slot falls free without a heartbeat,
-- -1 for never; the last token of the semaphore; and a state for each id: 2 if it has a slot, 1 if
-- it waits, else 0.
-- @include clock
-- @include numbers
-- @include expiry
-- @include refresh
-- @include limit
-- @include wake
local main, ttl, max, waiting, waiting_heartbeat = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local limit = optional_whole('limit', ARGV[1])
local heartbeat_s = positive('heartbeat_max_interval', ARGV[2])
local ttl_s = optional('ttl', ARGV[3])
local now = time_of(ARGV[4])

for n = 6, #ARGV do
  if refresh(main, ARGV[n], now + heartbeat_s) == 0 then
    refresh(waiting_heartbeat, ARGV[n], now + heartbeat_s)
  end
end
local need_s = need_of(heartbeat_s, ttl_s)
keep_limit(max, need_s)
for _, key in ipairs({main, waiting, waiting_heartbeat}) do -- the key ttl ends with its members
  keep(key, need_s)
end
limit = limit_of(max, limit) or 0
wake_up_nexts(
  main, ttl, waiting, waiting_heartbeat, limit, heartbeat_s, ttl_s, now, ARGV[5], KEYS[6]
)

local due_ms = -1
for _, key in ipairs({main, ttl}) do
  local score = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
  if score then
    local left_ms = math.max(0, math.ceil((score - now) * 1000))
    due_ms = due_ms < 0 and left_ms or math.min(due_ms, left_ms)
  end
end
local reply = {due_ms, last_token(KEYS[6])}
for n = 6, #ARGV do
  local state = 0
  if redis.call('ZSCORE', main, ARGV[n]) then
    state = 2
  elseif redis.call('ZSCORE', waiting, ARGV[n]) then
    state = 1
  end
  reply[n - 3] = state
end
return reply
