-- The life of a run: a build becomes READY, begins, is given up for another attempt, and ends. Here
-- the record and the indexes change together.
-- @include TimeoutDecider
-- @include Record
-- @include Queue
local Runs = {}

local CONTROL_MS = 3600 * 1000
local MORE_THAN_COME = 3

-- Tells a worker to give up this attempt.
local function tell_worker(q, build)
  if build.worker == "" then
    return
  end
  local key = q.root .. ":control:" .. build.worker
  redis.call("RPUSH", key, build.id .. " " .. build.token)
  redis.call("PEXPIRE", key, CONTROL_MS) -- the worker may be dead
end

-- Removes a build from the index of its state. Returns the name of the index.
function Runs.leave(q, build, was)
  if was == "BLOCKED" then
    Queue.remove_waiting(q, build)
    return "waiting"
  elseif was == "READY" or was == "RUNNING" then
    if was == "READY" or build.token == "" then -- else a worker has the build
      Queue.withdraw(q, build)
      Queue.unschedule(q, "offer:" .. build.id)
    end
    if was == "READY" then
      Queue.leave_ready(q, build)
      return "ready"
    end
    Queue.unschedule(q, "run:" .. build.id)
    return "run"
  elseif was == "FROZEN" then
    Queue.clear_job(q, build.job, "frozen")
  elseif not build.start_at then
    return "queue" -- the build is new
  end
  Queue.unschedule(q, "start:" .. build.id)
  return was == "FROZEN" and "frozen" or "delayed"
end

local function newest_running(build, job)
  return math.max(job.last_running or 0, build.number)
end

-- Makes a build READY: it has its job from now on, and any worker may claim it. `job` are the facts
-- about its job.
function Runs.make_ready(q, build, job)
  local was = build.state
  Record.change(q, build, "READY", { "reason", "READY", "blockers", "", "ready_at", q.now })
  Runs.leave(q, build, was)
  Queue.set_job(q, build.job, "last_running", newest_running(build, job), "ready", build.id)
  Queue.add_running(q, build, "+inf")
  Queue.offer(q, build)
end

-- Begins an attempt. Without a lease the attempt may last up to the time limit. `job` is needed if
-- the build was not READY.
function Runs.begin(q, build, job, worker, lease_ms)
  local was = build.state
  local is_first = was ~= "RUNNING"
  local started_at = is_first and q.now or build.started_at
  local limit_at = is_first and q.now + TimeoutDecider.limit_ms(build.timeout_ms) or build.limit_at
  local token, attempt = Queue.ticket(q), build.attempt + 1
  Record.change(q, build, "RUNNING", {
    "reason", is_first and "READY" or "RETRY", "blockers", "", "token", token, "attempt", attempt,
    "worker", worker, "started_at", started_at, "limit_at", limit_at,
  }, build.token == "")
  Runs.leave(q, build, was)
  if is_first then
    Queue.touch(q, build.job, true)
    Queue.set_job(q, build.job, "last_started_at", q.now)
    if was ~= "READY" then
      Queue.set_job(q, build.job, "last_running", newest_running(build, job))
    end
    Queue.add_running(q, build, q.now + TimeoutDecider.hold_ms(build.timeout_ms, build.hold_ms))
  end
  if not is_first then
    tell_worker(q, build)
  end
  build.token, build.attempt, build.worker = token, attempt, worker
  build.started_at, build.limit_at = started_at, limit_at
  Queue.watch(q, build, lease_ms and math.min(q.now + lease_ms, limit_at) or limit_at)
end

-- Gives an attempt up: the build keeps its job, and is on offer again after a pause. With `tell`
-- its worker gets a message.
function Runs.give_up(q, build, reason, delay_ms, tell)
  local ok, why =
    Record.change(q, build, "RUNNING", { "reason", reason, "token", "", "worker", "" })
  if not ok then
    return false, why
  end
  if tell then
    tell_worker(q, build)
  end
  Runs.leave(q, build, "RUNNING")
  Queue.watch(q, build, build.limit_at)
  if delay_ms > 0 then
    Queue.schedule(q, "offer:" .. build.id, q.now + delay_ms)
  else
    Queue.offer(q, build)
  end
  return true
end

-- Deletes builds that ended long enough ago, some in each call.
function Runs.forget_old(q, count)
  for _, id in ipairs(Queue.take_old(q, count)) do
    local job = Record.forget(q, id)
    if job then
      Queue.forget_job(q, job)
    end
  end
end

-- Ends a build, in any state. Returns the names of the indexes that it was removed from, or false
-- and an error. With `tell` its worker gets a message.
function Runs.finish(q, build, to, reason, tell)
  local was = build.state
  local ok, why =
    Record.change(q, build, to, { "reason", reason, "blockers", "", "ended_at", q.now })
  if not ok then
    return false, why
  end
  local removed = { Runs.leave(q, build, was) }
  if was == "BLOCKED" then
    Queue.touch(q, build.job)
  elseif was == "READY" or was == "RUNNING" then
    Queue.remove_running(q, build)
    Queue.touch_dependents(q, build.job)
    removed[#removed + 1] = "running"
  end
  if tell then
    tell_worker(q, build)
  end
  Queue.add_ended(q, build)
  Runs.forget_old(q, MORE_THAN_COME)
  return removed
end
