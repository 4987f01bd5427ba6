-- Makes builds of a job from time to time; or no more.
-- KEYS[1] queue         the queue's own key, which begins the names of all its others
-- ARGV[1] now           time in ms; empty: the server's
-- ARGV[2] name          of the plan; another one by that name is replaced
-- ARGV[3] cron          when; empty: never again
-- ARGV[4+] fields       of the records: name, value, name, value
-- Returns when the first build comes, in ms since 1970, -1 for never; what was wrong.
-- @include Arrivals

local q = Queue.open(KEYS[1], ARGV[1])
local fields = { unpack(ARGV, 4) }
local problem = ARGV[3] ~= "" and Arrivals.problem(q, fields)
if problem then
  return { -1, problem }
end
return { Arrivals.plan(q, ARGV[2], ARGV[3], fields) or -1, "" }
