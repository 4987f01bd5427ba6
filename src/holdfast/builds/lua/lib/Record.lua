-- The record of a build, the one source of truth. Only this module writes records, so every change
-- is legal, has an event, and is in the index of the state.
-- @include StateValidator
-- @include Queue
local Record = {}

local FLAGS = { "collapse", "blocked_by_self", "blocked_by_same_job", "virtual", "force" }
local NUMBERS = {
  "same_job_wait_ms", "timeout_ms", "hold_ms", "priority", "retries", "backoff_ms", "keep_ms",
  "keep_events", "start_at", "attempt", "started_at", "limit_at",
}
local TEXTS = { "id", "job", "state", "reason", "blocked_by", "freeze", "token", "worker" }
local FIELDS = {}
for _, names in ipairs({ TEXTS, FLAGS, NUMBERS }) do
  for _, name in ipairs(names) do
    FIELDS[#FIELDS + 1] = name
  end
end

function Record.key(q, id)
  return q.root .. ":build:" .. id
end

function Record.events_key(q, id)
  return q.root .. ":build:events:" .. id
end

-- The merged fields of the oldest events, which were trimmed.
function Record.base_key(q, id)
  return q.root .. ":build:base:" .. id
end

function Record.state_key(q, state)
  return q.root .. ":state:" .. state
end

function Record.job_key(q, job)
  return q.root .. ":builds:" .. job
end

-- A table from name, value, name, value.
function Record.by_name(fields)
  local found = {}
  for n = 1, #fields, 2 do
    found[fields[n]] = fields[n + 1]
  end
  return found
end

-- Texts become typed values, only here: "0" would be true in Lua. A missing number is nil.
function Record.typed(fields)
  local build = { number = tonumber(fields.id) }
  for _, name in ipairs(TEXTS) do
    build[name] = fields[name] or ""
  end
  for _, name in ipairs(FLAGS) do
    build[name] = fields[name] == "1"
  end
  for _, name in ipairs(NUMBERS) do
    build[name] = tonumber(fields[name] or "")
  end
  build.attempt = build.attempt or 0
  build.blocked_by = Queue.split(build.blocked_by)
  return build
end

function Record.exists(q, id)
  return redis.call("EXISTS", Record.key(q, id)) == 1
end

-- The build of a record; nil if there is no record.
function Record.load(q, id)
  local values = redis.call("HMGET", Record.key(q, id), unpack(FIELDS))
  if not values[1] then
    return nil
  end
  local fields = {}
  for n, name in ipairs(FIELDS) do
    fields[name] = values[n] or nil
  end
  return Record.typed(fields)
end

-- The error of a token; nil if the token belongs to the present attempt, or if it is empty.
function Record.stale(build, token)
  if token == "" or token == build.token then
    return nil
  elseif build.token == "" then
    return "no worker has the build any more"
  end
  return "the token is " .. build.token .. " by now"
end

-- All fields in their stored form: name, value, name, value.
function Record.raw(q, id)
  return redis.call("HGETALL", Record.key(q, id))
end

-- Whether a record has these fields.
function Record.matches(q, id, fields)
  local there = Record.by_name(Record.raw(q, id))
  for n = 1, #fields, 2 do
    if there[fields[n]] ~= fields[n + 1] then
      return false
    end
  end
  return true
end

-- The decision about a build, from its record: action, reason, state, the builds that it waits for,
-- an empty error, the jobs in a circle with its own; and 1 on an active-active database.
local ACTIONS = {
  QUEUED = "DELAY", BLOCKED = "BLOCK", FROZEN = "FREEZE", READY = "START", RUNNING = "START",
  SUCCESS = "START", FAILURE = "START", ABORTED = "ABORT", COLLAPSED = "COLLAPSE",
}
function Record.decision(raw)
  local there = Record.by_name(raw)
  local reason, blockers, cycle = there.reason or "", there.blockers or "", there.cycle or ""
  return ACTIONS[there.state], reason, there.state, blockers, "", cycle, redis.ACTIVE_ACTIVE
end

-- If there are too many events, the oldest event is merged into the base, with which a replay
-- begins. Only attempts can repeat; all other changes go one way. So only a new attempt checks the
-- limit.
local function fold_oldest(q, build)
  local events = Record.events_key(q, build.id)
  if redis.call("XLEN", events) > build.keep_events then
    local oldest = redis.call("XRANGE", events, "-", "+", "COUNT", 1)[1]
    redis.call("HSET", Record.base_key(q, build.id), unpack(oldest[2]))
    redis.call("XDEL", events, oldest[1])
  end
end

local function write(q, build, event, from, to, fields)
  for n = 1, #fields, 2 do
    fields[n + 1] = tostring(fields[n + 1])
  end
  fields[#fields + 1], fields[#fields + 2] = "state", to
  fields[#fields + 1], fields[#fields + 2] = "changed_at", q.now
  redis.call("HSET", Record.key(q, build.id), unpack(fields))
  redis.call("XADD", Record.events_key(q, build.id), "*", "event", event, unpack(fields))
  if from ~= to then
    if from ~= "NONE" then
      redis.call("ZREM", Record.state_key(q, from), build.id)
    end
    redis.call("ZADD", Record.state_key(q, to), build.id, build.id)
  else
    fold_oldest(q, build)
  end
end

-- A new record, QUEUED, from fields in their stored form.
function Record.create(q, id, fields)
  fields[#fields + 1], fields[#fields + 2] = "id", id
  local build = Record.typed(Record.by_name(fields))
  fields[#fields + 1], fields[#fields + 2] = "enqueued_at", q.now
  write(q, build, StateValidator.event("NONE", "QUEUED"), "NONE", "QUEUED", fields)
  build.state = "QUEUED"
  redis.call("ZADD", Record.job_key(q, build.job), id, id)
  return build
end

-- The only way to another state. If the change is not legal, changes nothing and returns false and
-- an error. `is_next`: the change begins another attempt, of a build that no worker has.
function Record.change(q, build, to, fields, is_next)
  local event, why = StateValidator.event(build.state, to, is_next)
  if not event then
    return false, why
  elseif event ~= "" then
    write(q, build, event, build.state, to, fields)
    build.state = to
  end
  return true
end

-- Deletes a record. Returns the job of the build, if the job has no other record.
function Record.forget(q, id)
  local state, job = unpack(redis.call("HMGET", Record.key(q, id), "state", "job"))
  redis.call("DEL", Record.key(q, id), Record.events_key(q, id), Record.base_key(q, id))
  if not state then
    return nil -- the record was deleted already
  end
  redis.call("ZREM", Record.state_key(q, state), id)
  redis.call("ZREM", Record.job_key(q, job), id)
  return redis.call("EXISTS", Record.job_key(q, job)) == 0 and job or nil
end
