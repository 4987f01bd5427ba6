-- Builds, the newest first.
-- KEYS[1] queue         the queue's own key, which begins the names of all its others
-- ARGV[1] now           time in ms; empty: the server's
-- ARGV[2] count         how many at most
-- ARGV[3] before        only those with a smaller id; empty: all
-- ARGV[4] job           of this job; empty: of any
-- ARGV[5+] states       in this state, or all that there are
-- Returns where to go on (as `before`; empty: there are no more), and their records.
-- @include Turns

local q, count, job = Queue.open(KEYS[1], ARGV[1]), tonumber(ARGV[2]), ARGV[4]
local before = ARGV[3] == "" and "+inf" or "(" .. ARGV[3]
local CHUNK, MOST_CHUNKS = 500, 20 -- of ids that are looked at in one call

local function newest(key, most)
  return redis.call("ZREVRANGEBYSCORE", key, before, "-inf", "LIMIT", 0, most)
end

-- Of all jobs: the newest of each state, and of these the newest.
local function of_states()
  local ids = {}
  for n = 5, #ARGV do
    for _, id in ipairs(newest(Record.state_key(q, ARGV[n]), count)) do
      ids[#ids + 1] = id
    end
  end
  table.sort(ids, function(a, b)
    return tonumber(a) > tonumber(b)
  end)
  local found = { unpack(ids, 1, math.min(count, #ids)) }
  return found, #found == count and found[count] or ""
end

-- What is in both of two indexes: ids of the smaller one are looked up in the other, the newest
-- first and no more than a call may.
local function of_both(one, other)
  if redis.call("ZCARD", one) > redis.call("ZCARD", other) then
    one, other = other, one
  end
  local found = {}
  for _ = 1, MOST_CHUNKS do
    local ids = newest(one, CHUNK)
    local scores = ids[1] and redis.call("ZMSCORE", other, unpack(ids)) or {}
    for n, id in ipairs(ids) do
      if scores[n] then
        found[#found + 1] = id
        if #found == count then
          return found, id
        end
      end
    end
    if #ids < CHUNK then
      return found, ""
    end
    before = "(" .. ids[CHUNK]
  end
  return found, string.sub(before, 2)
end

local found, rest
if job == "" then
  found, rest = of_states()
elseif #ARGV == 5 then
  found, rest = of_both(Record.job_key(q, job), Record.state_key(q, ARGV[5]))
else
  found = newest(Record.job_key(q, job), count)
  rest = #found == count and found[count] or ""
end
local records = {}
for n, id in ipairs(found) do
  records[n] = Turns.record(q, id)
end
return { rest, records }
