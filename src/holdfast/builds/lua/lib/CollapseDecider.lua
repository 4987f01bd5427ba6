-- Finds builds that are pointless because only the newest build of a job is to run. Pure: no Redis
-- call. A larger id is a newer build; ids are numbers here, nil if there is no such build.
local CollapseDecider = { NEWER_EXISTS = "NEWER_BUILD_EXISTS" }

-- The reason why a build that asks to start is pointless; nil if it is not.
function CollapseDecider.reason(build)
  if not build.collapse then
    return nil
  elseif build.last_running and build.id < build.last_running then
    return "OLDER_THAN_LAST_RUNNING"
  elseif build.newest_waiting and build.id < build.newest_waiting then
    return CollapseDecider.NEWER_EXISTS
  end
  return nil
end

-- Whether a waiting build becomes pointless when a build with this id comes. Only the newest
-- waiting build needs this question: older builds that collapse ended when the newest one came.
function CollapseDecider.is_overtaken(waiting_id, waiting_collapses, id)
  return waiting_collapses and waiting_id < id
end

-- The build that has its turn among the waiting builds of a job: the oldest, or the newest if
-- builds collapse.
function CollapseDecider.has_turn(build)
  if build.collapse then
    return build.newest_waiting == nil or build.id >= build.newest_waiting
  end
  return build.oldest_waiting == nil or build.id <= build.oldest_waiting
end
