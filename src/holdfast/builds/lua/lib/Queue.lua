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

local function add_dependent(q, build)
  for _, other in ipairs(build.blocked_by) do
    redis.call("HINCRBY", dependents_key(q, other), build.job, 1)
  end
end

local function remove_dependent(q, build)
  for _, other in ipairs(build.blocked_by) do
    if redis.call("HINCRBY", dependents_key(q, other), build.job, -1) <= 0 then
      redis.call("HDEL", dependents_key(q, other), build.job)
    end
  end
end

function Queue.add_waiting(q, build)
  redis.call("ZADD", waiting_key(q, build.job), build.id, build.id)
  if build.collapse then
    Queue.set_job(q, build.job, "collapsing", build.id)
  end
  add_dependent(q, build)
end

function Queue.remove_waiting(q, build)
  redis.call("ZREM", waiting_key(q, build.job), build.id)
  if build.collapse then
    Queue.clear_job(q, build.job, "collapsing")
  end
  remove_dependent(q, build)
end

-- -- running: builds of a job that run or are ready to, by when they must let go; +inf: it is
-- ready and has not begun --------------------------------------------------------------------------

local function running_key(q, job)
  return q.root .. ":running:" .. job
end

function Queue.add_running(q, build, until_ms)
  redis.call("ZADD", running_key(q, build.job), until_ms, build.id)
end

function Queue.remove_running(q, build)
  redis.call("ZREM", running_key(q, build.job), build.id)
end

-- Their ids, and apart from them those that have kept the job for too long. With `has_begun` only
-- those that have; then also when the first of them must let go.
function Queue.running(q, job, has_begun)
  local most = has_begun and "(+inf" or "+inf"
  local found = redis.call("ZRANGEBYSCORE", running_key(q, job), "-inf", most, "WITHSCORES")
  local running, overdue, until_ms = {}, {}, nil
  for n = 1, #found, 2 do
    local at = tonumber(found[n + 1])
    local into = at <= q.now and overdue or running
    into[#into + 1] = found[n]
    until_ms = until_ms or into == running and at or nil
  end
  return running, overdue, until_ms
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
-- `ready` the one that was let go and has not begun, `held` its place among those on offer while it
-- waits for others to end, `frozen` the one that waits for a thaw, `collapsing` the one that waits
-- and collapses: at most the newest does. `blocked_by` is what the build that came last was blocked
-- by, and `cycle` the circle that was found then.
local JOB = {
  "last_running", "last_started_at", "ready", "held", "frozen", "collapsing", "blocked_by", "cycle",
}

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

-- -- wake: what idle workers wait at --------------------------------------------------------------

local function wake_key(q)
  return q.root .. ":wake"
end

-- A worker that takes an element may die before it asks. So there are two for a build: another
-- worker that is idle asks, too, and mostly in vain.
local WAKES = 2

-- Up to `count` elements more, and up to `most` in all: who waits does so because there are none.
local function wake(q, count, most)
  local missing = math.min(count, most - redis.call("LLEN", wake_key(q)))
  if missing > 0 then
    redis.call("RPUSH", wake_key(q), unpack({ "1", "1" }, 1, missing))
  end
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
    wake(q, 1, 1)
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

local function until_ms(q, first)
  return first and math.max(0, math.ceil(first - q.now)) or -1
end

-- How long until something is due: 0 if it is by now, -1 if nothing is.
function Queue.next_due_ms(q)
  return until_ms(q, redis.call("ZRANGE", due_key(q), 0, 0, "WITHSCORES")[2])
end

-- -- ended: builds by when they are forgotten ----------------------------------------------------

local function ended_key(q)
  return q.root .. ":ended"
end

function Queue.add_ended(q, build)
  redis.call("ZADD", ended_key(q), q.now + build.keep_ms, build.id)
end

-- Some that are to be forgotten by now; they are ended no longer.
function Queue.take_old(q, count)
  local old = redis.call("ZRANGEBYSCORE", ended_key(q), "-inf", q.now, "LIMIT", 0, count)
  if old[1] then
    redis.call("ZREM", ended_key(q), unpack(old))
  end
  return old
end

-- How long until there is something to do for a worker that has nothing else to do: as
-- `next_due_ms`, or to forget builds. That waits for no worker and wakes none.
function Queue.next_look_ms(q)
  local due_ms = Queue.next_due_ms(q)
  local old_ms = until_ms(q, redis.call("ZRANGE", ended_key(q), 0, 0, "WITHSCORES")[2])
  return (due_ms < 0 or old_ms >= 0 and old_ms < due_ms) and old_ms or due_ms
end

-- -- ready: builds on offer, the most urgent first -----------------------------------------------

local STEP = 2 ^ 40 -- more tickets than there will ever be lie between two priorities

local function ready_key(q)
  return q.root .. ":ready"
end

local function new_place(q, build)
  return Queue.ticket(q) - build.priority * STEP
end

local function put_on_offer(q, build, place)
  redis.call("ZADD", ready_key(q), place, build.id)
  wake(q, WAKES, WAKES * Queue.count_ready(q))
end

function Queue.offer(q, build)
  put_on_offer(q, build, new_place(q, build))
end

function Queue.withdraw(q, build)
  redis.call("ZREM", ready_key(q), build.id)
end

-- A READY build may not begin before others have ended, at `until_ms` at the latest. Its job is
-- touched when they do, and it takes its place among those on offer again.
function Queue.hold(q, build, until_ms)
  local place = redis.call("ZSCORE", ready_key(q), build.id)
  if redis.call("HSETNX", job_key(q, build.job), "held", place or new_place(q, build)) == 1 then
    add_dependent(q, build)
  end
  Queue.withdraw(q, build)
  Queue.schedule(q, "offer:" .. build.id, until_ms)
end

-- It is on offer again, at its old place if it has one.
function Queue.offer_again(q, build, held)
  Queue.unschedule(q, "offer:" .. build.id)
  if held then
    Queue.clear_job(q, build.job, "held")
    remove_dependent(q, build)
    put_on_offer(q, build, held)
  else
    Queue.offer(q, build)
  end
end

-- A READY build leaves that state.
function Queue.leave_ready(q, build)
  if redis.call("HDEL", job_key(q, build.job), "ready", "held") == 2 then
    remove_dependent(q, build)
  end
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
  local most = WAKES * ready + spare
  if wakes > most then
    redis.call("LTRIM", wake_key(q), wakes - most, -1)
  elseif ready > 0 then
    wake(q, 1, 1)
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
