-- A queue: its time, and its indexes: of builds that wait, that run and that are on offer, and of
-- actions that are due. The indexes follow from the records. Each call changes records and indexes
-- together.
local Queue = {}

-- `root` is the key of the queue; the names of all other keys begin with it. If `now` is empty, the
-- time is that of the server's clock.
function Queue.open(root, now)
  if now == "" then
    local time = redis.call("TIME")
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return { root = root, now = tonumber(now), touched = {}, asked = 0, thaws = {} }
end

-- Numbers that only grow: for tokens, and for the order of offers.
function Queue.ticket(q)
  return redis.call("HINCRBY", q.root, "ticket", 1)
end

-- -- waiting: builds of a job by id, and the jobs that wait for a job -----------------------------

-- The jobs of a stored list, which has one job in each line.
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

-- -- running: builds of a job that run or are READY, by the time at which they lose the job -------
-- (+inf: the build is READY and has not begun)

local function running_key(q, job)
  return q.root .. ":running:" .. job
end

function Queue.add_running(q, build, until_ms)
  redis.call("ZADD", running_key(q, build.job), until_ms, build.id)
end

function Queue.remove_running(q, build)
  redis.call("ZREM", running_key(q, build.job), build.id)
end

-- The ids of builds that have the job; in a second list, builds that have had the job for too long.
-- With `has_begun`: only builds that have begun, and the time at which the first of them loses the
-- job.
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

-- The build that has a job, if there is one.
function Queue.owner(q, job)
  return redis.call("ZRANGE", running_key(q, job), 0, 0)[1]
end

-- -- jobs: the facts about a job that outlive its builds ------------------------------------------

local function job_key(q, job)
  return q.root .. ":job:" .. job
end

-- `last_running` is the newest build that became READY, `last_started_at` the time of the last
-- begin, `ready` the build that is READY and has not begun, `held` its place among the offers while
-- it may not begin, `frozen` the build that waits for the end of a freeze, `collapsing` the build
-- that waits and collapses (only the newest build can). `blocked_by` is the setting of the last
-- enqueued build, and `cycle` the circle of jobs that was found for that setting.
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

-- -- freezes: jobs that were frozen by hand, with the time of their thaw ---------------------------
-- (They are not among the facts about a job, which end with its last build.)

local function freezes_key(q)
  return q.root .. ":freezes"
end

-- The time until which a job is frozen by hand; nil if it is not.
function Queue.frozen_until(q, job)
  local at = tonumber(redis.call("HGET", freezes_key(q), job) or "")
  return at and at > q.now and at or nil
end

-- The jobs that are frozen by hand: name, time, name, time; in a second list, those of which the
-- time has passed.
function Queue.frozen_jobs(q)
  local all, frozen, passed = redis.call("HGETALL", freezes_key(q)), {}, {}
  for n = 1, #all, 2 do
    if tonumber(all[n + 1]) > q.now then
      frozen[#frozen + 1], frozen[#frozen + 2] = all[n], all[n + 1]
    else
      passed[#passed + 1] = all[n]
    end
  end
  return frozen, passed
end

function Queue.set_freeze(q, job, until_ms)
  redis.call("HSET", freezes_key(q), job, until_ms)
  local _, passed = Queue.frozen_jobs(q)
  for _, name in ipairs(passed) do
    redis.call("HDEL", freezes_key(q), name)
  end
end

-- -- wake: the list where idle workers wait -------------------------------------------------------

local function wake_key(q)
  return q.root .. ":wake"
end

-- A worker that pops an element may die before it claims a build. So the list has two elements for
-- each build: a second idle worker asks for a build, too, and mostly gets none.
local WAKES = 2

-- Adds up to `count` elements, up to `most` in all. Workers wait only while the list is empty.
local function wake(q, count, most)
  local missing = math.min(count, most - redis.call("LLEN", wake_key(q)))
  if missing > 0 then
    redis.call("RPUSH", wake_key(q), unpack({ "1", "1" }, 1, missing))
  end
end

-- -- due: actions by time -------------------------------------------------------------------------

local function due_key(q)
  return q.root .. ":due"
end

-- "start:id": a delayed or frozen build asks to start. "offer:id": a build goes on offer again.
-- "job:name": a waiting build asks to start. "cron:name": a periodic build is made. If the new
-- action is the next one, a worker is woken, so that it does not sleep too long.
function Queue.schedule(q, what, at)
  redis.call("ZADD", due_key(q), "LT", at, what)
  if redis.call("ZRANGE", due_key(q), 0, 0)[1] == what then
    wake(q, 1, 1)
  end
end

-- "run:id": the time to check a running build. Workers look often enough without being woken.
function Queue.watch(q, build, at)
  redis.call("ZADD", due_key(q), at, "run:" .. build.id)
end

function Queue.scheduled(q, what)
  return tonumber(redis.call("ZSCORE", due_key(q), what) or "")
end

function Queue.watched(q, build)
  return Queue.scheduled(q, "run:" .. build.id)
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

-- The time until the next action is due: 0 if it is due now, -1 if there is none.
function Queue.next_due_ms(q)
  return until_ms(q, redis.call("ZRANGE", due_key(q), 0, 0, "WITHSCORES")[2])
end

-- -- ended: builds by the time of their deletion --------------------------------------------------

local function ended_key(q)
  return q.root .. ":ended"
end

function Queue.add_ended(q, build)
  redis.call("ZADD", ended_key(q), q.now + build.keep_ms, build.id)
end

-- Some builds whose time of deletion has come; they leave this index.
function Queue.take_old(q, count)
  local old = redis.call("ZRANGEBYSCORE", ended_key(q), "-inf", q.now, "LIMIT", 0, count)
  if old[1] then
    redis.call("ZREM", ended_key(q), unpack(old))
  end
  return old
end

-- The time until an idle worker has work: a due action, or builds to delete. Builds to delete wake
-- no worker, because that is not urgent.
function Queue.next_look_ms(q)
  local due_ms = Queue.next_due_ms(q)
  local old_ms = until_ms(q, redis.call("ZRANGE", ended_key(q), 0, 0, "WITHSCORES")[2])
  return (due_ms < 0 or old_ms >= 0 and old_ms < due_ms) and old_ms or due_ms
end

-- -- ready: builds on offer, the most urgent first ------------------------------------------------

local STEP = 2 ^ 40 -- between two priorities there is room for all tickets

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

-- Takes a READY build from the offers: it must wait for the end of other builds or of a freeze
-- window, at most until `until_ms`. When the other builds end, its job is touched, and the build
-- gets its old place among the offers again.
function Queue.hold(q, build, until_ms)
  local place = redis.call("ZSCORE", ready_key(q), build.id)
  if redis.call("HSETNX", job_key(q, build.job), "held", place or new_place(q, build)) == 1 then
    add_dependent(q, build)
  end
  Queue.withdraw(q, build)
  Queue.schedule(q, "offer:" .. build.id, until_ms)
end

-- Offers a build again, at its old place if it has one.
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

-- Removes the notes about a READY build from its job: the build is no longer READY.
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

-- Adjusts the number of elements in `wake`. A worker may have claimed a build without popping an
-- element, or may have popped an element and died. `spare` elements are allowed for due actions.
function Queue.settle_wakes(q, spare)
  local ready, wakes = Queue.count_ready(q), redis.call("LLEN", wake_key(q))
  local most = WAKES * ready + spare
  if wakes > most then
    redis.call("LTRIM", wake_key(q), wakes - most, -1)
  elseif ready > 0 then
    wake(q, 1, 1)
  end
end

-- -- touched: jobs whose waiting builds may start now ---------------------------------------------

-- `has_begun`: the only change is that the READY build of the job has begun.
function Queue.touch(q, job, has_begun)
  if q.touched[job] == nil then
    q.touched[#q.touched + 1] = job
    q.touched[job] = has_begun or false
  elseif not has_begun then
    q.touched[job] = false
  end
end

-- A build of the job has ended: touches the job, and all jobs that wait for it.
function Queue.touch_dependents(q, job)
  Queue.touch(q, job)
  for _, other in ipairs(redis.call("HKEYS", dependents_key(q, job))) do
    Queue.touch(q, other)
  end
end
