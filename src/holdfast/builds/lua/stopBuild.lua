-- Ends a build, frees its job, and lets all builds start that may start now.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2] id            the build
-- ARGV[3] state         the final state: SUCCESS, FAILURE or ABORTED
-- ARGV[4] reason        why, in a word or a sentence
-- ARGV[5] token         of the attempt that ended; empty: the present attempt
-- ARGV[6] mark_ms       the time to keep an abort of a build that is not enqueued yet
-- Returns CLEANED, NOT_RUNNING, ALREADY_CLEAN, STALE or REFUSED; the state of the build; the
--   indexes that it was removed from; the build that its job runs now; an error.
-- @include Turns

local q = Queue.open(KEYS[1], ARGV[1])
local id, to, token = ARGV[2], ARGV[3], ARGV[5]
local build = Record.load(q, id)
if not build then
  if to == "ABORTED" then
    redis.call("SET", q.root .. ":aborted:" .. id, "1", "PX", ARGV[6])
  end
  return { "ALREADY_CLEAN", "", {}, "", "there is no build " .. id }
end

local status, removed, why = "CLEANED", {}, nil
local stale = Record.stale(build, token)
if stale then
  status, why = "STALE", stale
elseif StateValidator.is_final(build.state) then
  status = Queue.owner(q, build.job) and "NOT_RUNNING" or "ALREADY_CLEAN"
else
  removed, why = Runs.finish(q, build, to, ARGV[4], to == "ABORTED")
  if not removed then
    status, removed = "REFUSED", {}
  end
  Turns.settle(q)
end
return { status, build.state, removed, Queue.owner(q, build.job) or "", why or "" }
