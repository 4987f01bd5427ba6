-- Time limits of builds, and the decision about a build without a worker. Pure: no Redis call.
local TimeoutDecider = { TIMED_OUT = "TIMED_OUT" }

local MINUTE = 60 * 1000
TimeoutDecider.DEFAULT_LIMIT_MS = 90 * MINUTE
TimeoutDecider.DEFAULT_HOLD_MS = 120 * MINUTE
TimeoutDecider.HOLD_MARGIN_MS = 30 * MINUTE
TimeoutDecider.MAX_BACKOFF_MS = 60 * MINUTE

-- The longest time that a build may run.
function TimeoutDecider.limit_ms(timeout_ms)
  return timeout_ms or TimeoutDecider.DEFAULT_LIMIT_MS
end

-- The longest time that a build keeps its job from others, even if no worker checks timeouts.
function TimeoutDecider.hold_ms(timeout_ms, option_ms)
  if timeout_ms then
    return timeout_ms + TimeoutDecider.HOLD_MARGIN_MS
  end
  return option_ms or TimeoutDecider.DEFAULT_HOLD_MS
end

-- The pause before another attempt: doubled each time.
function TimeoutDecider.backoff_ms(attempt, first_ms)
  return math.min(first_ms * 2 ^ (attempt - 1), TimeoutDecider.MAX_BACKOFF_MS)
end

-- Whether another attempt is left after this one.
function TimeoutDecider.may_retry(attempt, retries)
  return attempt <= retries
end

-- The decision about a build and its reason. CLEANUP: the build does not run. TIMEOUT: the build
-- has failed. RETRY: its worker is lost, and another worker may try. SKIP: nothing to do. `owner`
-- is a running build of the same job, if there is one.
function TimeoutDecider.decide(build, now)
  if build.state ~= "RUNNING" then
    if build.is_final then
      return "CLEANUP", "COMPLETED"
    end
    return "CLEANUP", build.owner and "NOT_RUNNING" or "NOTHING_RUNNING"
  elseif now >= build.limit_at then
    return "TIMEOUT", TimeoutDecider.TIMED_OUT
  elseif build.lease_until and now >= build.lease_until then
    if TimeoutDecider.may_retry(build.attempt, build.retries) then
      return "RETRY", "WORKER_LOST"
    end
    return "TIMEOUT", "WORKER_LOST"
  end
  return "SKIP", "RUNNING"
end
