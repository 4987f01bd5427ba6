-- "Only the newest build of a job matters": which build that makes pointless. Pure: no Redis call.
-- A larger id is a newer build; ids are numbers here, nil where there is no such build.
local CollapseDecider = { NEWER_EXISTS = "NEWER_BUILD_EXISTS" }

-- Why a build that asks to start is pointless by now; nil if it is not.
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

-- Whether a waiting build becomes pointless when a build with this id comes. At most the newest
-- one that waits can: older ones that collapse did so when that one came.
function CollapseDecider.is_overtaken(waiting_id, waiting_collapses, id)
  return waiting_collapses and waiting_id < id
end

-- Whose turn it is among those of a job that wait: the oldest, or the newest if builds collapse.
function CollapseDecider.has_turn(build)
  if build.collapse then
    return build.newest_waiting == nil or build.id >= build.newest_waiting
  end
  return build.oldest_waiting == nil or build.id <= build.oldest_waiting
end
