-- Builds, the newest first.
-- KEYS[1] queue         the queue's own key, which begins the names of all its others
-- ARGV[1] count         how many at most
-- ARGV[2] job           of this job; empty: of any
-- ARGV[3+] states       in these states
-- Returns their records.
-- @include Record

local q, count, job = { root = KEYS[1] }, tonumber(ARGV[1]), ARGV[2]
local ids = {}
for n = 3, #ARGV do
  local key = Record.state_key(q, ARGV[n])
  local found
  if job == "" then
    found = redis.call("ZRANGE", key, -count, -1)
  else
    found = redis.call("ZINTER", 2, key, Record.job_key(q, job), "AGGREGATE", "MAX")
  end
  for _, id in ipairs(found) do
    ids[#ids + 1] = id
  end
end
table.sort(ids, function(a, b)
  return tonumber(a) > tonumber(b)
end)
local records = {}
for n = 1, math.min(count, #ids) do
  records[n] = Record.raw(q, ids[n])
end
return records
