-- Prolongs the leases of the builds that a worker runs.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2] lease_ms      the length of the lease
-- ARGV[3+] runs         id, token, id, token
-- Returns the time until something is due in ms (-1: nothing is due), and the ids of lost builds.
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
