-- Begins another attempt of a running build. A build that has ended is enqueued as a new build.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2] id            the build
-- ARGV[3] token         of the failed attempt; empty: the present one; its worker gets a message
-- ARGV[4] reason        why, in a word or a sentence
-- ARGV[5] anyway        "1": at once, and also if no attempt is left
-- ARGV[6] once          a name for this call, so that a call sent twice makes one new build
-- Returns RETRIED, ENDED (no attempt is left, or the build had ended), ENQUEUED, STALE or REFUSED;
--   the state of the build; its id; the time until the build is on offer, in ms; an error.
-- @include Arrivals

local q = Queue.open(KEYS[1], ARGV[1])
local id, token, reason, anyway = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == "1"
local build = Record.load(q, id)
if not build then
  return { "REFUSED", "", id, 0, "there is no build " .. id }
end
local stale = Record.stale(build, token)
if stale then
  return { "STALE", build.state, id, 0, stale }
end

if StateValidator.is_final(build.state) then
  if token ~= "" then
    return { "ENDED", build.state, id, 0, "" } -- repeated, or sent too late
  end
  local new_id = Arrivals.new_id(q, ARGV[6])
  if not Record.exists(q, new_id) then
    Arrivals.enqueue(q, new_id, Arrivals.copy(Record.raw(q, id)))
    Turns.settle(q)
  end
  return { "ENQUEUED", Record.load(q, new_id).state, new_id, 0, "" }
elseif build.state ~= "RUNNING" then
  return { "REFUSED", build.state, id, 0, build.state .. ": it has not run yet" }
elseif anyway or TimeoutDecider.may_retry(build.attempt, build.retries) then
  local delay_ms = anyway and 0 or TimeoutDecider.backoff_ms(build.attempt, build.backoff_ms)
  Runs.give_up(q, build, reason, delay_ms, token == "")
  return { "RETRIED", build.state, id, delay_ms, "" }
end
Runs.finish(q, build, "FAILURE", reason)
Turns.settle(q)
return { "ENDED", build.state, id, 0, "" }
