-- A build asks to start; or a worker asks for any build that is on offer.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2] id            the build; empty: the first on offer
-- ARGV[3] worker        the name of the worker
-- ARGV[4] lease_ms      the length of the lease; empty: up to the time limit
-- ARGV[5] force         "1": ignore the delay and the freeze windows of the build
-- Returns id, action, reason, state, blocking builds, an error, the time until something is due in
--   ms (-1: nothing is due), the present time; the record, if the build begins; and 1 on an
--   active-active database.
-- @include Turns

local q = Queue.open(KEYS[1], ARGV[1])
local worker, lease_ms = ARGV[3], tonumber(ARGV[4])

local function answer(id, action, reason, build, blockers, why)
  Turns.settle(q)
  -- A worker that gets no build learns the time until something is due, and waits no longer than
  -- that. A worker that gets a build may not ask again soon.
  Queue.settle_wakes(q, action == "NONE" and 0 or 1)
  local has_begun = action == "START" and build.state == "RUNNING"
  return {
    id, action, reason, build and build.state or "", table.concat(blockers or {}, " "), why or "",
    Queue.next_look_ms(q), q.now, has_begun and Record.raw(q, id) or {},
    redis.ACTIVE_ACTIVE,
  }
end

local function begin(build, job)
  Runs.begin(q, build, job, worker, lease_ms)
end

if ARGV[2] == "" then
  local build = Turns.next_on_offer(q)
  if not build then
    return answer("", "NONE", "NOTHING_ON_OFFER")
  end
  local reason = build.state == "READY" and "READY" or "RETRY"
  begin(build)
  return answer(build.id, "START", reason, build)
end

local build = Record.load(q, ARGV[2])
if not build then
  return answer(ARGV[2], "ABORT", "BUILD_CONFIG_MISSING")
elseif build.state == "ABORTED" then
  return answer(build.id, "ABORT", "BUILD_ABORTED", build)
end
local event, why = StateValidator.event(build.state, "RUNNING")
if not event then
  return answer(build.id, "REFUSE", "ILLEGAL_CHANGE", build, {}, why)
end
build.undelayed = ARGV[5] == "1"
build.force = build.force or build.undelayed
if build.state == "RUNNING" then
  begin(build)
  return answer(build.id, "START", "RETRY", build)
elseif build.state == "READY" then
  local action, reason, blockers = Turns.hold(q, build)
  if action then
    return answer(build.id, action, reason, build, blockers)
  end
  begin(build)
  return answer(build.id, "START", "READY", build)
end
local action, reason, blockers = Turns.ask(q, build, Queue.job(q, build.job), begin)
return answer(build.id, action, reason, build, blockers)
