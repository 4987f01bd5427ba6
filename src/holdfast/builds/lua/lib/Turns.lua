-- Decides which builds may start: gathers the facts for the deciders, and carries out their
-- decisions.
-- @include CollapseDecider
-- @include DependencyResolver
-- @include CronDecider
-- @include Runs
local Turns = { NOT_BEFORE = "NOT_BEFORE", JOB_FROZEN = "JOB_FROZEN" }

local MOST_ASKED = 200 -- builds that may ask in one call; for the rest, another call is due at once
local DAY = 24 * 3600 * 1000
local LOOK_DAYS = 40 -- how far ahead freeze windows are followed

-- The running builds of a job. Builds that have had the job for too long have failed: the first
-- call that finds them ends them.
local function running_builds(q, job, has_begun)
  local running, overdue, until_ms = Queue.running(q, job, has_begun)
  for _, id in ipairs(overdue) do
    Runs.finish(q, Record.load(q, id), "FAILURE", TimeoutDecider.TIMED_OUT, true)
  end
  return running, until_ms
end

-- The time at which freeze windows let a build start, or at which they must be checked again; nil
-- for now. One call may need this for hundreds of builds, so windows that stay open for long are
-- not followed to their end. A call that only reads needs the present state alone. A job that is
-- frozen by hand is in one more window. Also returns the reason.
local function thaw(q, build)
  if build.force then
    return nil
  end
  local by_hand, text = Queue.frozen_until(q, build.job), build.freeze
  if by_hand then
    return by_hand, Turns.JOB_FROZEN
  elseif text == "" then
    return nil
  elseif not q.thaws[text] then
    local days = q.only_looks and 0 or LOOK_DAYS
    q.thaws[text] = CronDecider.first(text, q.now, false, days) or q.now + LOOK_DAYS * DAY
  end
  if q.thaws[text] > q.now then
    return q.thaws[text], "FREEZE_WINDOW"
  end
  return nil
end

-- The time at which the windows of a new build let it start; nil for never.
function Turns.end_of_freeze(q, text)
  q.thaws[text] = CronDecider.first(text, q.now, false)
  return q.thaws[text]
end

-- The builds that block a READY build now: the reason, the builds, and the time at which the first
-- of them loses its job. Other READY builds do not block it: it was READY before them.
local function hindrance(q, build, look)
  local first = math.huge
  local reason, blockers = DependencyResolver.dependencies(build, function(other)
    local running, until_ms = look(q, other, true)
    first = math.min(first, until_ms or first)
    return running
  end)
  return reason, blockers, first
end

-- A build becomes READY when nothing blocks it. Later a freeze window may open, or builds that
-- block it may begin. Then the build stays READY, keeps its job, and is on offer again after the
-- window or those builds have ended.
-- Returns action, reason, the builds that the build waits for; nil if the build may begin.
function Turns.hold(q, build)
  local frozen_until, frozen_by = thaw(q, build)
  if frozen_until then
    Queue.hold(q, build, frozen_until)
    return "FREEZE", frozen_by, {}
  end
  local reason, blockers, until_ms = hindrance(q, build, running_builds)
  if reason then
    Queue.hold(q, build, until_ms)
    return "BLOCK", reason, blockers
  end
  return nil
end

-- Offers the READY build of a job again, if it waited for a build that has ended. (Scripts of older
-- versions do not know `held`, and may leave it behind.)
local function release(q, job)
  local build = job.held and job.ready and Record.load(q, job.ready)
  local frozen_until = build and thaw(q, build)
  if frozen_until then
    Queue.hold(q, build, frozen_until)
  elseif build and not hindrance(q, build, running_builds) then
    Queue.offer_again(q, build, job.held)
  end
end

-- The decision about a build that asks to start: action, reason, the builds that it waits for, and
-- the time to ask again. `running(job)` lists the ids of builds that have that job. This function
-- writes nothing.
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
  local frozen_until, frozen_by = thaw(q, build)
  if frozen_until then
    -- A build that waits already keeps its place; a new build is frozen.
    return build.state == "BLOCKED" and "BLOCK" or "FREEZE", frozen_by, {}, frozen_until
  end
  facts.has_turn = CollapseDecider.has_turn(facts)
  local reason, blockers, again_at = DependencyResolver.reason(facts, q.now, running)
  if reason then
    return "BLOCK", reason, blockers, again_at
  end
  return "START", "READY", {}
end

-- The running builds of a job, for calls that only read: overdue builds still count as running.
local function running_as_it_is(q, job, has_begun)
  local running, overdue = Queue.running(q, job, has_begun)
  for _, id in ipairs(running) do
    overdue[#overdue + 1] = id
  end
  return overdue
end

-- The present reason why a build waits, the builds that it waits for, and the end of its freeze; nil
-- if its record has them. The record of a BLOCKED build has the first reason only: to write each new
-- reason into all waiting records would cost more than to compute the reason for a reader. The
-- reason READY means that the build may start with the next call.
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
    local frozen_until, frozen_by = thaw(q, build)
    if frozen_until then
      return frozen_by, {}
    end
    local reason, blockers = hindrance(q, build, running_as_it_is) -- no time: it is no freeze
    return reason, blockers
  elseif build.state == "FROZEN" then
    local by_hand, _, frozen_by = Queue.frozen_until(q, build.job), thaw(q, build)
    local until_ms = not build.force and by_hand or Queue.scheduled(q, "start:" .. build.id)
    return frozen_by or "FREEZE_WINDOW", {}, until_ms
  end
  return nil
end

-- The stored record of a build, with its present reason to wait.
function Turns.record(q, id)
  q.only_looks = true
  local raw = Record.raw(q, id)
  local reason, blockers, until_ms = nil, nil, nil
  if raw[1] then
    reason, blockers, until_ms = why_now(q, Record.typed(Record.by_name(raw)))
  end
  for n = 1, reason and #raw or 0, 2 do
    if raw[n] == "reason" then
      raw[n + 1] = reason
    elseif raw[n] == "blockers" then
      raw[n + 1] = table.concat(blockers, " ")
    elseif raw[n] == "frozen_until" and until_ms then
      raw[n + 1] = string.format("%.0f", until_ms)
    end
  end
  return raw
end

-- A build that waits or starts makes an older build that waits and collapses pointless.
local function overtake(q, build, job)
  if not job.collapsing or job.collapsing == build.id then
    return
  end
  local other = Record.load(q, job.collapsing)
  if CollapseDecider.is_overtaken(other.number, other.collapse, build.number) then
    Runs.finish(q, other, "COLLAPSED", CollapseDecider.NEWER_EXISTS)
  end
end

-- Freezes a build. A job has one frozen build, the newest. Returns false if the frozen build is
-- newer.
local function freeze(q, build, job, reason, at)
  if job.frozen and job.frozen ~= build.id then
    local other = Record.load(q, job.frozen)
    if not CollapseDecider.is_overtaken(other.number, true, build.number) then
      Runs.finish(q, build, "COLLAPSED", CollapseDecider.NEWER_EXISTS)
      return false
    end
    Runs.finish(q, other, "COLLAPSED", CollapseDecider.NEWER_EXISTS)
  end
  Record.change(q, build, "FROZEN", { "reason", reason, "frozen_until", at })
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

-- Lets a QUEUED, BLOCKED or FROZEN build ask to start, and carries the decision out. `job` are the
-- facts about its job. With the function `begin`, a build that may start begins at once; else it is
-- offered to workers.
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
    if not freeze(q, build, job, reason, again_at) then
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
      Runs.make_ready(q, build, job)
    end
  end
  return action, reason, blockers
end

-- Lets the next waiting build of a job ask to start: the oldest, or the newest if that collapses.
-- If the only change is that a build of the job has begun, a build that never runs beside another
-- build of its job need not ask.
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
      return -- a virtual build has ended and touched its job again
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

-- Freezes a job by hand until a time, or thaws it (0), and lets its builds ask again.
function Turns.freeze_job(q, name, until_ms)
  Queue.set_freeze(q, name, until_ms)
  local job = Queue.job(q, name)
  local frozen = job.frozen and Record.load(q, job.frozen)
  if frozen then
    Turns.ask(q, frozen, job)
  end
  local ready = job.ready and Record.load(q, job.ready)
  if ready then
    Turns.hold(q, ready)
  end
  Queue.touch(q, name)
end

-- The end of every call that changed the queue: makes all builds READY that may start now, the
-- oldest first.
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

-- The most urgent build on offer that may begin; nil if there is none. Builds that may not begin
-- leave the offers. One call checks at most MOST_ASKED builds; after that the worker has to ask
-- again.
function Turns.next_on_offer(q)
  local asked = 0
  while asked < MOST_ASKED do
    local id = Queue.first_ready(q)
    if not id then
      Turns.settle(q) -- an overdue build may have ended
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
