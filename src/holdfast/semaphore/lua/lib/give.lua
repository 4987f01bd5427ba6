-- @include expiry
-- @include token

-- Messages for an id such as `box/7` go to the list of `box`, which many waiters of one process
-- share. Any other id has a list of its own.
local function mailbox_of(id)
  return string.match(id, '^(.+)/%d+$') or id
end

local function post(pattern, box, message, heartbeat_s)
  local start, stop = string.find(pattern, '@@@ACQUISITION_ID@@@', 1, true)
  local list = string.sub(pattern, 1, start - 1) .. box .. string.sub(pattern, stop + 1)
  if redis.call('RPUSH', list, message) == 1 then
    redis.call('PEXPIRE', list, life_ms(heartbeat_s))
  else
    keep(list, heartbeat_s)
  end
end

-- Gives the slots from `card` to `limit` to the waiters that wait longest, and sends each a
-- message. Returns the number of these waiters. With the key `token`, a message has all data of a holder:
-- id, fencing token, number of taken slots, and the heartbeat interval of the caller. Without that
-- key, a message has the id alone, and the waiter asks for the rest. Messages for `here`, the
-- mailbox of the caller, are not posted but added to `heard`.
--
-- With the key `token`, a waiter takes its own lease into its slot: the lease that its last
-- heartbeat began. The waiter may be dead already, and a new lease would block the slot for a
-- second interval. Without that key, as in the first version of these scripts, the slot begins a
-- new lease.
local function give_slots(
  main, waiting, waiting_heartbeat, card, limit, heartbeat_s, ttl_s, now, pattern, token, here, heard
)
  local told = 0
  while card < limit do
    local id = redis.call('ZPOPMIN', waiting)[1]
    if not id then
      break
    end
    local until_s = redis.call('ZSCORE', waiting_heartbeat, id)
    redis.call('ZREM', waiting_heartbeat, id)
    if not until_s or tonumber(until_s) > now then -- else the waiter is dead
      redis.call('ZADD', main, token and until_s or now + heartbeat_s, id)
      card = card + 1
      told = told + 1
      local message = id
      if token then
        message = string.format('%s %.0f %d %.17g', id, next_token(token, now), card, heartbeat_s)
      end
      local box = mailbox_of(id)
      if box == here then
        heard[#heard + 1] = message
      else
        post(pattern, box, message, heartbeat_s)
      end
    end
  end
  if told > 0 then
    keep(main, need_of(heartbeat_s, ttl_s))
  end
  return told
end
