-- Carries out the actions that are due: ends builds that ran too long, offers builds of lost
-- workers again, lets delayed and frozen builds ask to start, makes periodic builds.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2] count         the most actions, and the most builds to delete
-- ARGV[3+] ids          builds to check; none: carry out all due actions
-- Returns the time until the next action is due in ms (-1: none is due); and the actions: kind, id,
--   action, reason, kind, …
-- @include Arrivals

local q = Queue.open(KEYS[1], ARGV[1])
local done = {}

local function note(kind, id, action, reason)
  for _, word in ipairs({ kind, id, action, reason }) do
    done[#done + 1] = word
  end
end

local handle = {}

function handle.run(id)
  local build = Record.load(q, id) or { id = id, state = "NONE", is_final = true }
  local watched = Queue.watched(q, build)
  build.is_final = build.is_final or StateValidator.is_final(build.state)
  build.owner = build.job and Queue.owner(q, build.job)
  build.lease_until = watched and build.limit_at and watched < build.limit_at and watched or nil
  local action, reason = TimeoutDecider.decide(build, q.now)
  if action == "TIMEOUT" then
    Runs.finish(q, build, "FAILURE", reason, true)
  elseif action == "RETRY" then
    Runs.give_up(q, build, reason, 0, true)
  elseif action == "CLEANUP" then
    Queue.unschedule(q, "run:" .. id)
  end
  note("run", id, action, reason)
end

function handle.start(id)
  Queue.unschedule(q, "start:" .. id)
  local build = Record.load(q, id)
  if build and (build.state == "QUEUED" or build.state == "FROZEN") then
    local action, reason = Turns.ask(q, build, Queue.job(q, build.job))
    note("start", id, action, reason)
  end
end

function handle.offer(id)
  Queue.unschedule(q, "offer:" .. id)
  local build = Record.load(q, id)
  if build and (build.state == "READY" or build.state == "RUNNING") then
    Queue.offer_again(q, build, build.state == "READY" and Queue.job(q, build.job).held)
    note("offer", id, "OFFER", build.reason)
  end
end

function handle.job(name)
  Queue.unschedule(q, "job:" .. name)
  Queue.touch(q, name)
end

function handle.cron(name)
  Queue.unschedule(q, "cron:" .. name)
  local build = Arrivals.periodic(q, name)
  if build then
    note("cron", build.id, "ENQUEUE", name)
  end
end

if ARGV[3] then
  for n = 3, #ARGV do
    handle.run(ARGV[n])
  end
else
  for _, what in ipairs(Queue.due(q, ARGV[2])) do
    local kind, name = string.match(what, "^(%l+):(.*)$")
    handle[kind](name)
  end
end
Runs.forget_old(q, ARGV[2])
Turns.settle(q)
return { Queue.next_due_ms(q), done }
