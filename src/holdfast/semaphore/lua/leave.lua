-- Gives a slot back, or a place in the queue, and gives free slots to waiters: release and
-- wake_up_nexts in one call.
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
-- Returns removed: 1 if it had a slot, else 0; {removed, message, …} with messages for the caller.
local main, ttl, max, waiting, waiting_heartbeat, token = unpack(KEYS)
local id, limit_text, heartbeat_text, ttl_text, now_text, pattern, mailbox = unpack(ARGV)

-- No waiter: it stands before the functions below, because to define them takes time, too.
if redis.call('EXISTS', waiting) == 0 then
  if ttl_text ~= '' then -- else it has no time limit, or the member ends by itself
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
local is_last = card == 1 -- it goes after another is in, so that the key need not be created again
local removed
if is_last then
  removed = redis.call('ZSCORE', main, id) and 1 or 0
else
  removed = redis.call('ZREM', main, id)
end
if removed == 1 then -- there is a slot to give; waiters take care of other slots
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
