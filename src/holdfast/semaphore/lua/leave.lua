-- Gives a slot back, or a place in the queue, and lets the next ones in: release and
-- wake_up_nexts in one call.
-- KEYS[1] main                 ZSET: until when each holder is believed alive
-- KEYS[2] ttl                  ZSET: until when each may hold
-- KEYS[3] max                  STRING: the limit
-- KEYS[4] waiting              ZSET: when each came
-- KEYS[5] waiting_heartbeat    ZSET: until when each is believed alive
-- KEYS[6] token                STRING: the last fencing token
-- ARGV[1] acquisition_id
-- ARGV[2] limit                slots; empty for what the server says
-- ARGV[3] heartbeat_max_interval    seconds
-- ARGV[4] ttl                  seconds; empty for none
-- ARGV[5] now                  seconds; empty for the server's time
-- ARGV[6] acquisition_notification_key_pattern    with @@@ACQUISITION_ID@@@ in it
-- ARGV[7] mailbox              of the caller, who is told here what would come there; or empty
-- Returns removed: 1 if it had a slot, else 0; {removed, message, …} with what the caller is told.
local main, ttl, max, waiting, waiting_heartbeat, token = unpack(KEYS)
local id, limit_text, heartbeat_text, ttl_text, now_text, pattern, mailbox = unpack(ARGV)

-- Nobody waits. This needs none of the functions below: to define them takes time, too.
if redis.call('EXISTS', waiting) == 0 then
  if ttl_text ~= '' then -- else it has none, or one that ends by itself
    redis.call('ZREM', ttl, id)
  end
  return redis.call('ZREM', main, id)
end

-- @include clock
-- @include give
-- @include limit
-- @include numbers
-- @include purge
-- @include remove
local limit = optional_whole('limit', limit_text)
local heartbeat_s = positive('heartbeat_max_interval', heartbeat_text)
local ttl_s = optional('ttl', ttl_text)
local now = time_of(now_text)
local card = redis.call('ZCARD', main)
local is_last = card == 1 -- so it goes when another is in, and the key need not be made again
local removed
if is_last then
  removed = redis.call('ZSCORE', main, id) and 1 or 0
else
  removed = redis.call('ZREM', main, id)
end
if removed == 1 then -- there is a slot to give, and who waits tends the others
  card = card - 1
else
  forget(ttl, waiting, waiting_heartbeat, id)
  purge_slots(main, ttl, now)
  card = redis.call('ZCARD', main)
end
local heard = {removed}
give_slots(
  main, waiting, waiting_heartbeat, card, limit_of(max, limit) or 0, heartbeat_s, ttl_s, now,
  pattern, token, mailbox, heard
)
if removed == 1 then
  if is_last then
    redis.call('ZREM', main, id)
  end
  if ttl_s then
    redis.call('ZREM', ttl, id)
  end
end
return heard[2] and heard or removed
