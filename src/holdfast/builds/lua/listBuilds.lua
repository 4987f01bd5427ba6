-- Builds, the newest first.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2] count         how many at most
-- ARGV[3] before        only builds with a smaller id; empty: all
-- ARGV[4] job           the job; empty: any
-- ARGV[5+] states       one state, or all states
-- Returns the next value of `before` (empty: there are no more builds), and the records.
-- @include Turns

local q, count, job = Queue.open(KEYS[1], ARGV[1]), tonumber(ARGV[2]), ARGV[4]
local before = ARGV[3] == "" and "+inf" or "(" .. ARGV[3]
local CHUNK, MOST_CHUNKS = 500, 20 -- limit of the ids read in one call

local function newest(key, most)
  return redis.call("ZREVRANGEBYSCORE", key, before, "-inf", "LIMIT", 0, most)
end

-- Builds of all jobs: the newest of each state are merged, the newest first.
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

-- The ids in both of two indexes. Ids of the smaller index are looked up in the larger one, the
-- newest first, up to the limit of a call.
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
