-- @include expiry
-- @include purge

-- An id such as `box/7` is told through the list of `box`, which many waiters of one process
-- share; any other id has a list of its own.
local function mailbox_of(pattern, id)
  local box = string.match(id, '^(.+)/%d+$') or id
  local start, stop = string.find(pattern, '@@@ACQUISITION_ID@@@', 1, true)
  return string.sub(pattern, 1, start - 1) .. box .. string.sub(pattern, stop + 1)
end

-- Gives free slots to those who wait longest, and tells them. How many were told.
local function wake_up_nexts(main, ttl, waiting, waiting_heartbeat, limit, heartbeat_s, ttl_s, now, pattern)
  purge_slots(main, ttl, now)
  local free = limit - redis.call('ZCARD', main)
  purge_waiting(waiting, waiting_heartbeat, now)
  local told = 0
  while told < free do
    local id = redis.call('ZPOPMIN', waiting)[1]
    if not id then
      break
    end
    redis.call('ZREM', waiting_heartbeat, id)
    redis.call('ZADD', main, now + heartbeat_s, id)
    local mailbox = mailbox_of(pattern, id)
    redis.call('RPUSH', mailbox, id)
    keep(mailbox, heartbeat_s)
    told = told + 1
  end
  if told > 0 then
    keep(main, need_of(heartbeat_s, ttl_s))
  end
  return told
end
