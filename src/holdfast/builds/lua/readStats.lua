-- The queue in numbers.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2+] states       the states to count
-- Returns the number of builds on offer, the time until something is due in ms (-1: nothing is
--   due), the newest id, the number of builds in each state, the jobs that are frozen by hand:
--   name, time of the thaw, name, …
-- @include Record

local q = Queue.open(KEYS[1], ARGV[1])
local counts = {}
for n = 2, #ARGV do
  counts[n - 1] = redis.call("ZCARD", Record.state_key(q, ARGV[n]))
end
local newest = tonumber(redis.call("HGET", q.root, "newest") or 0)
return { Queue.count_ready(q), Queue.next_look_ms(q), newest, counts, (Queue.frozen_jobs(q)) }
