-- A queue: its time, and the indexes that say which builds wait, run, are on offer and are due.
-- They follow from the records and are kept by the same call.
local Queue = {}

-- `root` is the queue's own key and begins the names of all others. Without `now`, the server's
-- time counts.
function Queue.open(root, now)
  if now == "" then
    local time = redis.call("TIME")
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return { root = root, now = tonumber(now), touched = {}, asked = 0 }
end

-- Numbers that only grow: tokens, and the order of offers.
function Queue.ticket(q)
  return redis.call("HINCRBY", q.root, "ticket", 1)
end

-- -- waiting: builds of a job by id, and which jobs wait for a job ------------------------------

-- A list of jobs as it is stored: one a line.
function Queue.split(text)
  local jobs = {}
  for job in string.gmatch(text, "[^\n]+") do
    jobs[#jobs + 1] = job
  end
  return jobs
end

local function waiting_key(q, job)
  return q.root .. ":waiting:" .. job
end

local function dependents_key(q, job)
  return q.root .. ":dependents:" .. job
end

function Queue.oldest_waiting(q, job)
  return redis.call("ZRANGE", waiting_key(q, job), 0, 0)[1]
end

function Queue.newest_waiting(q, job)
  return redis.call("ZRANGE", waiting_key(q, job), -1, -1)[1]
end

function Queue.add_waiting(q, build)
  redis.call("ZADD", waiting_key(q, build.job), build.id, build.id)
  if build.collapse then
    Queue.set_job(q, build.job, "collapsing", build.id)
  end
  for _, other in ipairs(build.blocked_by) do
    redis.call("HINCRBY", dependents_key(q, other), build.job, 1)
  end
end

function Queue.remove_waiting(q, build)
  redis.call("ZREM", waiting_key(q, build.job), build.id)
  if build.collapse then
    Queue.clear_job(q, build.job, "collapsing")
  end
  for _, other in ipairs(build.blocked_by) do
    if redis.call("HINCRBY", dependents_key(q, other), build.job, -1) <= 0 then
      redis.call("HDEL", dependents_key(q, other), build.job)
    end
  end
end

-- -- running: builds of a job that run or are ready to, by when they must let go -----------------

local function running_key(q, job)
  return q.root .. ":running:" .. job
end

function Queue.add_running(q, build, until_ms)
  redis.call("ZADD", running_key(q, build.job), until_ms, build.id)
end

function Queue.remove_running(q, build)
  redis.call("ZREM", running_key(q, build.job), build.id)
end

-- Their ids, and apart from them those that have kept the job for too long.
function Queue.running(q, job)
  local found = redis.call("ZRANGE", running_key(q, job), 0, -1, "WITHSCORES")
  local running, overdue = {}, {}
  for n = 1, #found, 2 do
    local into = tonumber(found[n + 1]) <= q.now and overdue or running
    into[#into + 1] = found[n]
  end
  return running, overdue
end

-- The build that has a job, if one has.
function Queue.owner(q, job)
  return redis.call("ZRANGE", running_key(q, job), 0, 0)[1]
end

-- -- jobs: what is remembered of them between their builds ---------------------------------------

local function job_key(q, job)
  return q.root .. ":job:" .. job
end

-- `last_running` is the newest build that was let go, `last_started_at` when one began last,
-- `ready` the one that was let go and has not begun, `frozen` the one that waits for a thaw,
-- `collapsing` the one that waits and collapses: at most the newest does. `blocked_by` is what the
-- build that came last was blocked by, and `cycle` the circle that was found then.
local JOB = { "last_running", "last_started_at", "ready", "frozen", "collapsing", "blocked_by", "cycle" }

function Queue.job(q, name)
  local values = redis.call("HMGET", job_key(q, name), unpack(JOB))
  local job = {}
  for n, field in ipairs(JOB) do
    job[field] = values[n] or nil
  end
  job.last_running, job.last_started_at = tonumber(job.last_running), tonumber(job.last_started_at)
  return job
end

function Queue.set_job(q, job, ...)
  redis.call("HSET", job_key(q, job), ...)
end

function Queue.clear_job(q, job, field)
  redis.call("HDEL", job_key(q, job), field)
end

function Queue.forget_job(q, job)
  redis.call("DEL", job_key(q, job))
end

-- -- due: what time brings -----------------------------------------------------------------------

local function due_key(q)
  return q.root .. ":due"
end

-- "start:id" a delayed or frozen build asks, "offer:id" a build goes on offer again, "job:name" a
-- waiting build asks, "cron:name" a periodic build is made. If it is the next thing to come, a
-- worker has to know how long it may sleep.
function Queue.schedule(q, what, at)
  redis.call("ZADD", due_key(q), "LT", at, what)
  if redis.call("ZRANGE", due_key(q), 0, 0)[1] == what then
    Queue.wake(q)
  end
end

-- "run:id": when to look after a running build. Workers do so often enough without being told.
function Queue.watch(q, build, at)
  redis.call("ZADD", due_key(q), at, "run:" .. build.id)
end

function Queue.watched(q, build)
  return tonumber(redis.call("ZSCORE", due_key(q), "run:" .. build.id) or "")
end

function Queue.unschedule(q, ...)
  redis.call("ZREM", due_key(q), ...)
end

function Queue.due(q, count)
  return redis.call("ZRANGEBYSCORE", due_key(q), "-inf", q.now, "LIMIT", 0, count)
end

-- How long until something is due: 0 if it is by now, -1 if nothing is.
function Queue.next_due_ms(q)
  local first = redis.call("ZRANGE", due_key(q), 0, 0, "WITHSCORES")
  return first[2] and math.max(0, math.ceil(first[2] - q.now)) or -1
end

-- -- ready: builds on offer, the most urgent first; wake: an element for each, to wait for --------

local STEP = 2 ^ 40 -- more tickets than there will ever be lie between two priorities

local function ready_key(q)
  return q.root .. ":ready"
end

local function wake_key(q)
  return q.root .. ":wake"
end

function Queue.wake(q)
  redis.call("RPUSH", wake_key(q), "1")
end

function Queue.offer(q, build)
  redis.call("ZADD", ready_key(q), Queue.ticket(q) - build.priority * STEP, build.id)
  Queue.wake(q)
end

function Queue.withdraw(q, build)
  redis.call("ZREM", ready_key(q), build.id)
end

function Queue.first_ready(q)
  return redis.call("ZRANGE", ready_key(q), 0, 0)[1]
end

function Queue.count_ready(q)
  return redis.call("ZCARD", ready_key(q))
end

-- Who took a build may not have taken its element, and who took an element may have died of it.
-- `spare` elements may be there for what is due.
function Queue.settle_wakes(q, spare)
  local ready, wakes = Queue.count_ready(q), redis.call("LLEN", wake_key(q))
  if wakes > ready + spare then
    redis.call("LTRIM", wake_key(q), wakes - ready - spare, -1)
  elseif ready > 0 and wakes == 0 then
    Queue.wake(q)
  end
end

-- -- touched: jobs whose waiting builds may go by now --------------------------------------------

-- `has_begun`: no more than that a build of it, which was let go before, runs now.
function Queue.touch(q, job, has_begun)
  if q.touched[job] == nil then
    q.touched[#q.touched + 1] = job
    q.touched[job] = has_begun or false
  elseif not has_begun then
    q.touched[job] = false
  end
end

-- A build of the job has ended: that concerns the job itself and all that wait for it.
function Queue.touch_dependents(q, job)
  Queue.touch(q, job)
  for _, other in ipairs(redis.call("HKEYS", dependents_key(q, job))) do
    Queue.touch(q, other)
  end
end
