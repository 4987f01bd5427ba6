-- The reasons for a build to wait: other jobs, its own job, its turn. Pure: no Redis call.
-- `running_builds(job)` lists the ids of that job's running builds.
local DependencyResolver = {}

-- Running builds of other jobs that block a build, in the order of its blocked_by.
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

-- The reason why other jobs block a build, and the blocking builds; nil if none does.
function DependencyResolver.dependencies(build, running_builds)
  local blockers = DependencyResolver.blockers(build.job, build.blocked_by, running_builds)
  if #blockers > 0 then
    return "BLOCKED_BY_DEPENDENCIES", blockers
  end
  return nil
end

-- The time at which a build may start beside a running build of its own job: nil for now, false if
-- it must wait for the end of the running build.
function DependencyResolver.beside_same_job(build, now)
  if build.blocked_by_self then
    return false
  elseif build.blocked_by_same_job then
    return nil
  end
  local at = (build.last_started_at or now) + build.same_job_wait_ms
  return at > now and at or nil
end

-- nil if the build may start. Else the reason, the builds that it waits for, and, if it waits for a
-- time, the time to ask again. `ready` is the build of the same job that may start and has not
-- begun yet: a job has one such build at a time, so that builds begin in order.
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

-- A path from a job back to itself along blocked_by, as a list of jobs; nil if there is none.
-- `blocked_by(job)` lists the jobs that block a job.
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
