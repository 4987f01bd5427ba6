-- Gives a slot back, or a place in the queue, and gives free slots to waiters. This script does the
-- work of release and wake_up_nexts in one call.
-- KEYS[1] main                 ZSET: holders, by the end of their leases
-- KEYS[2] ttl                  ZSET: holders, by the end of their time limits
-- KEYS[3] max                  STRING: the limit
-- KEYS[4] waiting              ZSET: waiters, by their arrival
-- KEYS[5] waiting_heartbeat    ZSET: waiters, by the end of their leases
-- KEYS[6] token                STRING: the last fencing token
-- ARGV[1] acquisition_id
-- ARGV[2] limit                slots; empty for the limit that the server has
-- ARGV[3] heartbeat_max_interval    seconds
-- ARGV[4] ttl                  seconds; empty for none
-- ARGV[5] now                  seconds; empty for the server's clock
-- ARGV[6] acquisition_notification_key_pattern    with @@@ACQUISITION_ID@@@ in it
-- ARGV[7] mailbox              of the caller: its messages are returned, not posted; or empty
-- Returns removed: 1 if the acquisition had a slot, else 0; or {removed, message, …} if there are
-- messages for the caller.
local main, ttl, max, waiting, waiting_heartbeat, token = unpack(KEYS)
local id, limit_text, heartbeat_text, ttl_text, now_text, pattern, mailbox = unpack(ARGV)

-- The case without a waiter. This code is above the functions below, because to define them takes
-- time, too.
if redis.call('EXISTS', waiting) == 0 then
  if ttl_text ~= '' then -- else there is no time limit, or the member ends by itself
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
local is_last = card == 1 -- removed after a waiter was added, so that the key is not created again
local removed
if is_last then
  removed = redis.call('ZSCORE', main, id) and 1 or 0
else
  removed = redis.call('ZREM', main, id)
end
if removed == 1 then -- this slot is free now; waiters look after other slots
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
