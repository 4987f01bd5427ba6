-- New builds: enqueued, periodic, or as a retry of a build that has ended.
-- @include Turns
local Arrivals = {}

-- The numbers that a record must have; Python checks their ranges.
local NEEDED = { "same_job_wait_ms", "priority", "retries", "backoff_ms", "keep_ms", "keep_events" }

-- The error in the fields of a new record; nil if there is none.
function Arrivals.problem(q, fields)
  if #fields % 2 == 1 then
    return "fields come in pairs"
  end
  local given = Record.by_name(fields)
  if (given.job or "") == "" then
    return "a build needs a job"
  end
  for _, name in ipairs(NEEDED) do
    if not tonumber(given[name] or "") then
      return name .. " must be a number"
    end
  end
  local freeze = given.force ~= "1" and given.freeze or ""
  if freeze ~= "" and not Turns.end_of_freeze(q, freeze) then
    return "its freeze windows never end, so it would never start"
  end
  return nil
end

local function newest_id(q)
  return tonumber(redis.call("HGET", q.root, "newest") or 0)
end

-- An id for a build without an id. A client may send a call twice: `once` is the name of the call,
-- and the same name gets the same id again.
function Arrivals.new_id(q, once)
  local key = q.root .. ":once:" .. once
  local id = redis.call("GET", key)
  if not id then
    id = string.format("%.0f", newest_id(q) + 1)
    redis.call("SET", key, id, "PX", 60000)
  end
  return id
end

-- Jobs that block each other in a circle. This is no deadlock, because only running builds block;
-- but it is probably a mistake. The search runs when the blocked_by of a job has changed.
local function circle(q, name, job, blocked_by)
  if blocked_by == (job.blocked_by or "") then
    return job.cycle or ""
  end
  Queue.set_job(q, name, "blocked_by", blocked_by)
  local found = DependencyResolver.cycle(name, function(other)
    return Queue.split(Queue.job(q, other).blocked_by or "")
  end)
  local text = found and table.concat(found, "\n") or ""
  Queue.set_job(q, name, "cycle", text)
  return text
end

-- Creates a record and lets the build ask to start. Returns the build. The fields must be checked,
-- and the id must be free.
function Arrivals.enqueue(q, id, fields)
  local given = Record.by_name(fields)
  local job = Queue.job(q, given.job)
  local cycle = circle(q, given.job, job, given.blocked_by or "")
  fields[#fields + 1], fields[#fields + 2] = "cycle", cycle
  local delay_ms = tonumber(given.delay_ms) or 0
  if delay_ms > 0 then
    fields[#fields + 1], fields[#fields + 2] = "start_at", q.now + delay_ms
    fields[#fields + 1], fields[#fields + 2] = "reason", Turns.NOT_BEFORE
  end
  local build = Record.create(q, id, fields)
  if build.number > newest_id(q) then
    redis.call("HSET", q.root, "newest", id)
  end
  if redis.call("DEL", q.root .. ":aborted:" .. id) == 1 then
    Runs.finish(q, build, "ABORTED", "BUILD_ABORTED")
  else
    Turns.ask(q, build, job)
  end
  return build
end

-- Fields that a run leaves in a record. A new record begins without them.
local OF_A_RUN = {
  id = true, state = true, reason = true, blockers = true, cycle = true, token = true,
  attempt = true, worker = true, changed_at = true, enqueued_at = true, ready_at = true,
  started_at = true, limit_at = true, ended_at = true, frozen_until = true, start_at = true,
  delay_ms = true, retry_of = true,
}

-- The fields of a new record with the settings of an old one.
function Arrivals.copy(raw)
  local fields, id = {}, nil
  for n = 1, #raw, 2 do
    if raw[n] == "id" then
      id = raw[n + 1]
    elseif not OF_A_RUN[raw[n]] then
      fields[#fields + 1], fields[#fields + 2] = raw[n], raw[n + 1]
    end
  end
  fields[#fields + 1], fields[#fields + 2] = "retry_of", id
  return fields
end

local function plan_key(q, name)
  return q.root .. ":periodic:" .. name
end

local function next_time(q, cron)
  return CronDecider.first(cron, (math.floor(q.now / 60000) + 1) * 60000, true)
end

-- Sets a plan for periodic builds in place of the plan with that name; removes it if cron is empty.
-- Returns the time of the first build. nil if cron never comes: then nothing changes.
function Arrivals.plan(q, name, cron, fields)
  local at = cron ~= "" and next_time(q, cron)
  if at == nil then
    return nil
  end
  Queue.unschedule(q, "cron:" .. name)
  redis.call("DEL", plan_key(q, name))
  redis.call("HDEL", q.root .. ":periodic", name)
  if at then
    redis.call("HSET", q.root .. ":periodic", name, cron)
    redis.call("HSET", plan_key(q, name), unpack(fields))
    Queue.schedule(q, "cron:" .. name, at)
  end
  return at
end

-- Makes the build of a plan that is due. Runs missed while no worker was up are merged into one.
function Arrivals.periodic(q, name)
  local cron = redis.call("HGET", q.root .. ":periodic", name)
  local at = cron and next_time(q, cron)
  if not cron then
    return nil
  elseif at then
    Queue.schedule(q, "cron:" .. name, at)
  end
  local id = Arrivals.new_id(q, "cron:" .. name .. ":" .. q.now)
  return Arrivals.enqueue(q, id, redis.call("HGETALL", plan_key(q, name)))
end
