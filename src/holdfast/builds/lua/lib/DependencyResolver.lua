-- What a build has to wait for: other jobs, its own job, its turn. Pure: no Redis call.
-- `running_builds(job)` lists the ids of that job's running builds.
local DependencyResolver = {}

-- Running builds of the other jobs that it is blocked by, in their order.
function DependencyResolver.blockers(job, blocked_by, running_builds)
  local found = {}
  for _, other in ipairs(blocked_by) do
    if other ~= job then
      for _, id in ipairs(running_builds(other)) do
        found[#found + 1] = id
      end
    end
  end
  return found
end

-- Why it may not start beside builds of other jobs, and those; nil if it may.
function DependencyResolver.dependencies(build, running_builds)
  local blockers = DependencyResolver.blockers(build.job, build.blocked_by, running_builds)
  if #blockers > 0 then
    return "BLOCKED_BY_DEPENDENCIES", blockers
  end
  return nil
end

-- When the next build may start beside one of its own job that runs: nil for now, false for not
-- before that one has ended, else a time.
function DependencyResolver.beside_same_job(build, now)
  if build.blocked_by_self then
    return false
  elseif build.blocked_by_same_job then
    return nil
  end
  local at = (build.last_started_at or now) + build.same_job_wait_ms
  return at > now and at or nil
end

-- nil if it may go; else why not, the builds it waits for, and when to ask again if it is time
-- that it waits for. `ready` is the build of its job that has been let go and not begun yet: a
-- job lets one go at a time, so that they begin in that order.
function DependencyResolver.reason(build, now, running_builds)
  local why, blockers = DependencyResolver.dependencies(build, running_builds)
  if why then
    return why, blockers
  end
  local same = running_builds(build.job)
  if build.ready then
    return "BLOCKED_BY_SAME_JOB", { build.ready }
  elseif #same > 0 then
    local at = DependencyResolver.beside_same_job(build, now)
    if at ~= nil then
      return "BLOCKED_BY_SAME_JOB", same, at or nil
    end
  end
  if not build.has_turn then
    return "NOT_ITS_TURN", {}
  end
  return nil
end

-- A way from a job back to itself along blocked_by, as a list of jobs; nil if there is none.
-- `blocked_by(job)` lists what that job is blocked by.
function DependencyResolver.cycle(start, blocked_by)
  local seen, path = {}, {}
  local function walk(job)
    path[#path + 1] = job
    for _, other in ipairs(blocked_by(job)) do
      if other == start and job ~= start then
        path[#path + 1] = start
        return true
      elseif not seen[other] and other ~= job then
        seen[other] = true
        if walk(other) then
          return true
        end
      end
    end
    path[#path] = nil
    return false
  end
  seen[start] = true
  return walk(start) and path or nil
end
