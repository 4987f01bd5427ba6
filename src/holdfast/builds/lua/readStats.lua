-- The queue in numbers.
-- KEYS[1] queue         the queue's own key, which begins the names of all its others
-- ARGV[1] now           time in ms; empty: the server's
-- ARGV[2+] states       to count builds in
-- Returns builds on offer, how long until something is due in ms (-1: nothing is), the newest id,
--   how many builds are in each state.
-- @include Record

local q = Queue.open(KEYS[1], ARGV[1])
local counts = {}
for n = 2, #ARGV do
  counts[n - 1] = redis.call("ZCARD", Record.state_key(q, ARGV[n]))
end
local newest = tonumber(redis.call("HGET", q.root, "newest") or 0)
return { Queue.count_ready(q), Queue.next_look_ms(q), newest, counts }
