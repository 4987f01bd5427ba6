-- Says that acquisitions are alive, lets the next ones in, and says what became of those named:
-- ping of many and wake_up_nexts in one call.
-- KEYS[1] main                 ZSET: until when each holder is believed alive
-- KEYS[2] ttl                  ZSET: until when each may hold
-- KEYS[3] max                  STRING: the limit
-- KEYS[4] waiting              ZSET: when each came
-- KEYS[5] waiting_heartbeat    ZSET: until when each is believed alive
-- KEYS[6] token                STRING: the last fencing token
-- ARGV[1] limit                slots; empty for what the server says
-- ARGV[2] heartbeat_max_interval    seconds
-- ARGV[3] ttl                  seconds; empty for none
-- ARGV[4] now                  seconds; empty for the server's time
-- ARGV[5] acquisition_notification_key_pattern    with @@@ACQUISITION_ID@@@ in it
-- ARGV[6+] acquisition_ids
-- Returns {due_ms, token, state, …}: when the next slot falls free unless somebody pings, -1 for
-- never; the last token of all; and for each id 2 if it has a slot, 1 if it waits, 0 if neither.
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
for _, key in ipairs({main, waiting, waiting_heartbeat}) do -- ttl lives as long as its members
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
