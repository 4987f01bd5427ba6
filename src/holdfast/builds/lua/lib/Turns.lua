-- Who may go: gathers what the deciders ask for, and does what they decide.
-- @include CollapseDecider
-- @include DependencyResolver
-- @include CronDecider
-- @include Runs
local Turns = { NOT_BEFORE = "NOT_BEFORE" }

local MOST_ASKED = 200 -- in one call; what is left is due at once
local YEAR = 366 * 24 * 3600 * 1000

-- Builds that have kept a job for longer than they may have failed, whichever call notices first.
local function running_builds(q, job, has_begun)
  local running, overdue, until_ms = Queue.running(q, job, has_begun)
  for _, id in ipairs(overdue) do
    Runs.finish(q, Record.load(q, id), "FAILURE", TimeoutDecider.TIMED_OUT, true)
  end
  return running, until_ms
end

-- When freeze windows let it start: nil for now.
local function thaw(q, build)
  if build.freeze == "" or build.force then
    return nil
  end
  local at = CronDecider.first(build.freeze, q.now, false) or q.now + YEAR
  return at > q.now and at or nil
end

-- Which builds hinder a READY one by now: why, those, and when the first of them must let go.
-- Those that are no more than READY do not: it was let go before them.
local function hindrance(q, build, look)
  local first = math.huge
  local reason, blockers = DependencyResolver.dependencies(build, function(other)
    local running, until_ms = look(q, other, true)
    first = math.min(first, until_ms or first)
    return running
  end)
  return reason, blockers, first
end

-- A READY build was let go when nothing hindered it. A freeze window may have opened since, and
-- builds that it is blocked by may have begun. Then it stays READY, keeps its job, and is on offer
-- again when that has passed: action, reason, the builds that it waits for. nil if it may begin.
function Turns.hold(q, build)
  local frozen_until = thaw(q, build)
  if frozen_until then
    Queue.withdraw(q, build)
    Queue.schedule(q, "offer:" .. build.id, frozen_until)
    return "FREEZE", "FREEZE_WINDOW", {}
  end
  local reason, blockers, until_ms = hindrance(q, build, running_builds)
  if reason then
    Queue.hold(q, build, until_ms)
    return "BLOCK", reason, blockers
  end
  return nil
end

-- A build of a job has ended that the READY build of another one may have waited for. (Scripts of
-- older versions do not know `held`, and may leave it behind.)
local function release(q, job)
  local build = job.held and job.ready and Record.load(q, job.ready)
  if build and not hindrance(q, build, running_builds) then
    Queue.offer_again(q, build, job.held)
  end
end

-- What becomes of a build that asks to start: action, reason, the builds that it waits for, and
-- when to ask again. `running(job)` lists ids of builds that have that job. Changes nothing itself.
local function decide(q, build, job, running)
  if build.state == "QUEUED" and not build.undelayed and (build.start_at or 0) > q.now then
    return "DELAY", Turns.NOT_BEFORE, {}, build.start_at
  end
  local facts = {
    id = build.number,
    job = build.job,
    collapse = build.collapse,
    last_running = job.last_running,
    oldest_waiting = tonumber(Queue.oldest_waiting(q, build.job)),
    newest_waiting = build.collapse and tonumber(Queue.newest_waiting(q, build.job)) or nil,
    blocked_by = build.blocked_by,
    blocked_by_self = build.blocked_by_self,
    blocked_by_same_job = build.blocked_by_same_job,
    same_job_wait_ms = build.same_job_wait_ms,
    last_started_at = job.last_started_at,
    ready = job.ready,
  }
  local pointless = CollapseDecider.reason(facts)
  if pointless then
    return "COLLAPSE", pointless, {}
  end
  local frozen_until = thaw(q, build)
  if frozen_until then
    -- Who waits already keeps its place; who comes is frozen.
    return build.state == "BLOCKED" and "BLOCK" or "FREEZE", "FREEZE_WINDOW", {}, frozen_until
  end
  facts.has_turn = CollapseDecider.has_turn(facts)
  local reason, blockers, again_at = DependencyResolver.reason(facts, q.now, running)
  if reason then
    return "BLOCK", reason, blockers, again_at
  end
  return "START", "READY", {}
end

-- The same for those who only look: builds that are overdue still run.
local function running_as_it_is(q, job, has_begun)
  local running, overdue = Queue.running(q, job, has_begun)
  for _, id in ipairs(running) do
    overdue[#overdue + 1] = id
  end
  return overdue
end

-- Why a build waits now, and for which builds; nil if that is what its record says. The record of
-- a BLOCKED build tells why it waited first: to write down each change for all that wait would cost
-- more than to look when one is asked for. READY is said of a build that may go with the next call.
local function why_now(q, build)
  if build.state == "BLOCKED" then
    local job = Queue.job(q, build.job)
    local action, reason, blockers = decide(q, build, job, function(other)
      return running_as_it_is(q, other)
    end)
    if action ~= "COLLAPSE" then
      return reason, blockers
    end
  elseif build.state == "READY" then
    if thaw(q, build) then
      return "FREEZE_WINDOW", {}
    end
    return hindrance(q, build, running_as_it_is)
  end
  return nil
end

-- The record of a build as it is stored, with why it waits now.
function Turns.record(q, id)
  local raw = Record.raw(q, id)
  local reason, blockers = nil, nil
  if raw[1] then
    reason, blockers = why_now(q, Record.typed(Record.by_name(raw)))
  end
  for n = 1, reason and #raw or 0, 2 do
    if raw[n] == "reason" then
      raw[n + 1] = reason
    elseif raw[n] == "blockers" then
      raw[n + 1] = table.concat(blockers, " ")
    end
  end
  return raw
end

-- A build that waits or goes makes the one that waits and collapses pointless, if it is older.
local function overtake(q, build, job)
  if not job.collapsing or job.collapsing == build.id then
    return
  end
  local other = Record.load(q, job.collapsing)
  if CollapseDecider.is_overtaken(other.number, other.collapse, build.number) then
    Runs.finish(q, other, "COLLAPSED", CollapseDecider.NEWER_EXISTS)
  end
end

-- A job has one frozen build, the newest. False if that is another one.
local function freeze(q, build, job, at)
  if job.frozen and job.frozen ~= build.id then
    local other = Record.load(q, job.frozen)
    if not CollapseDecider.is_overtaken(other.number, true, build.number) then
      Runs.finish(q, build, "COLLAPSED", CollapseDecider.NEWER_EXISTS)
      return false
    end
    Runs.finish(q, other, "COLLAPSED", CollapseDecider.NEWER_EXISTS)
  end
  Record.change(q, build, "FROZEN", { "reason", "FREEZE_WINDOW", "frozen_until", at })
  Queue.set_job(q, build.job, "frozen", build.id)
  Queue.schedule(q, "start:" .. build.id, at)
  return true
end

local function block(q, build, job, reason, blockers, again_at)
  local was = build.state
  if was ~= "BLOCKED" then
    overtake(q, build, job)
    local ids = table.concat(blockers, " ")
    Record.change(q, build, "BLOCKED", { "reason", reason, "blockers", ids })
    Runs.leave(q, build, was)
    Queue.add_waiting(q, build)
  end
  if again_at then
    Queue.schedule(q, "job:" .. build.job, again_at)
  end
end

-- A QUEUED, BLOCKED or FROZEN build asks to start; what was decided is done. `job` is what is
-- known of its job. With `begin`, a build that may go begins at once, by that function; else it is
-- on offer to workers.
function Turns.ask(q, build, job, begin)
  q.asked = q.asked + 1
  local action, reason, blockers, again_at = decide(q, build, job, function(other)
    return (running_builds(q, other))
  end)
  if action == "COLLAPSE" then
    Runs.finish(q, build, "COLLAPSED", reason)
  elseif action == "DELAY" then
    Queue.schedule(q, "start:" .. build.id, again_at)
  elseif action == "FREEZE" then
    if not freeze(q, build, job, again_at) then
      action, reason = "COLLAPSE", CollapseDecider.NEWER_EXISTS
    end
  elseif action == "BLOCK" then
    block(q, build, job, reason, blockers, again_at)
  else
    overtake(q, build, job)
    if build.virtual then
      Runs.begin(q, build, job, "")
      Runs.finish(q, build, "SUCCESS", "VIRTUAL")
    elseif begin then
      begin(build, job)
    else
      Runs.let_go(q, build, job)
    end
  end
  return action, reason, blockers
end

-- Among those of a job that wait, whoever has the turn asks: the oldest, or the newest if that
-- collapses. Where a build of the job has only begun, who never runs beside it need not ask.
local function advance(q, name, has_begun)
  local function ask(id, job)
    local build = Record.load(q, id)
    if has_begun and build.blocked_by_self then
      return "BLOCK"
    end
    return Turns.ask(q, build, job)
  end

  if not has_begun then
    release(q, Queue.job(q, name))
  end
  while q.asked < MOST_ASKED do
    local oldest = Queue.oldest_waiting(q, name)
    if not oldest then
      return
    end
    local job = Queue.job(q, name)
    local action = ask(oldest, job)
    if action == "BLOCK" and job.collapsing and job.collapsing ~= oldest then
      action = ask(job.collapsing, job)
    end
    if action ~= "COLLAPSE" then
      return -- a virtual build that has ended has touched its job again
    end
  end
  Queue.schedule(q, "job:" .. name, q.now)
end

local function by_oldest(q, jobs)
  local heads = {}
  for _, job in ipairs(jobs) do
    heads[job] = tonumber(Queue.oldest_waiting(q, job)) or math.huge
  end
  table.sort(jobs, function(a, b)
    return heads[a] < heads[b] or heads[a] == heads[b] and a < b
  end)
end

-- The end of every call that changed something: all who may go by now are let go, the oldest
-- builds first.
function Turns.settle(q)
  while #q.touched > 0 do
    local jobs = q.touched
    q.touched = {}
    if #jobs > 1 then
      by_oldest(q, jobs)
    end
    for _, job in ipairs(jobs) do
      advance(q, job, jobs[job])
    end
  end
end

-- The most urgent build on offer that may begin; nil if there is none. Those that may not are on
-- offer no longer. In one call that is not asked of more than a few; the worker is told to ask again.
function Turns.next_on_offer(q)
  local asked = 0
  while asked < MOST_ASKED do
    local id = Queue.first_ready(q)
    if not id then
      Turns.settle(q) -- an overdue build may have been ended
      id = Queue.first_ready(q)
    end
    if not id then
      return nil
    end
    local build = Record.load(q, id)
    if not build then
      Queue.withdraw(q, { id = id }) -- its record was deleted from outside
    elseif build.state ~= "READY" or not Turns.hold(q, build) then
      return build
    end
    asked = asked + 1
  end
  return nil
end
