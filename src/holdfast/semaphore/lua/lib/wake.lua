-- @include expiry
-- @include purge
-- @include token

-- An id such as `box/7` is told through the list of `box`, which many waiters of one process
-- share; any other id has a list of its own.
local function mailbox_of(pattern, id)
  local box = string.match(id, '^(.+)/%d+$') or id
  local start, stop = string.find(pattern, '@@@ACQUISITION_ID@@@', 1, true)
  return string.sub(pattern, 1, start - 1) .. box .. string.sub(pattern, stop + 1)
end

-- Gives free slots to those who wait longest, and tells them. How many were told.
-- With the key of tokens they are told all that a holder has to know: id, fencing token, how many
-- slots are taken, and for how long it is believed alive; without it the id alone, and they ask.
local function wake_up_nexts(
  main, ttl, waiting, waiting_heartbeat, limit, heartbeat_s, ttl_s, now, pattern, token
)
  purge_slots(main, ttl, now)
  local card = redis.call('ZCARD', main)
  purge_waiting(waiting, waiting_heartbeat, now)
  local told = 0
  while card < limit do
    local id = redis.call('ZPOPMIN', waiting)[1]
    if not id then
      break
    end
    redis.call('ZREM', waiting_heartbeat, id)
    redis.call('ZADD', main, now + heartbeat_s, id)
    card = card + 1
    told = told + 1
    local mailbox = mailbox_of(pattern, id)
    local message = id
    if token then
      message = string.format('%s %.0f %d %.17g', id, next_token(token, now), card, heartbeat_s)
    end
    if redis.call('RPUSH', mailbox, message) == 1 then
      redis.call('PEXPIRE', mailbox, life_ms(heartbeat_s))
    else
      keep(mailbox, heartbeat_s)
    end
  end
  if told > 0 then
    keep(main, need_of(heartbeat_s, ttl_s))
  end
  return told
end
