-- Sets or removes a plan: periodic builds of a job.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2] name          of the plan; a plan with that name is replaced
-- ARGV[3] cron          the times; empty: remove the plan
-- ARGV[4+] fields       of the records: name, value, name, value
-- Returns the time of the first build in ms since 1970, -1 for never; an error.
-- @include Arrivals

local q = Queue.open(KEYS[1], ARGV[1])
local fields = { unpack(ARGV, 4) }
local problem = ARGV[3] ~= "" and Arrivals.problem(q, fields)
if problem then
  return { -1, problem }
end
return { Arrivals.plan(q, ARGV[2], ARGV[3], fields) or -1, "" }
