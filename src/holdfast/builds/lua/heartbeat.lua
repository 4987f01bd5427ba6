-- A worker's sign of life for the builds that it runs.
-- KEYS[1] queue         the queue's own key, which begins the names of all its others
-- ARGV[1] now           time in ms; empty: the server's
-- ARGV[2] lease_ms      how long without another one
-- ARGV[3+] runs         id, token, id, token
-- Returns how long until something is due in ms (-1: nothing is), and the ids that it has lost.
-- @include Runs

local q = Queue.open(KEYS[1], ARGV[1])
local lost = {}
for n = 3, #ARGV, 2 do
  local build = Record.load(q, ARGV[n])
  if build and build.state == "RUNNING" and build.token == ARGV[n + 1] then
    Queue.watch(q, build, math.min(q.now + tonumber(ARGV[2]), build.limit_at))
  else
    lost[#lost + 1] = ARGV[n]
  end
end
return { Queue.next_look_ms(q), lost }
