-- The legal changes of state, and the event of each. Pure: no Redis call.
-- build_states.py has the same table; a test compares the two.
local StateValidator = {}

StateValidator.MOVES = {
  NONE = { QUEUED = "BuildEnqueued" },
  QUEUED = {
    BLOCKED = "BuildBlocked",
    FROZEN = "BuildFrozen",
    READY = "BuildUnblocked",
    RUNNING = "BuildStarted",
    ABORTED = "BuildAborted",
    COLLAPSED = "BuildCollapsed",
  },
  BLOCKED = {
    READY = "BuildUnblocked",
    RUNNING = "BuildStarted",
    ABORTED = "BuildAborted",
    COLLAPSED = "BuildCollapsed",
  },
  FROZEN = {
    BLOCKED = "BuildBlocked",
    READY = "BuildUnblocked",
    RUNNING = "BuildStarted",
    ABORTED = "BuildAborted",
    COLLAPSED = "BuildCollapsed",
  },
  READY = { RUNNING = "BuildStarted", ABORTED = "BuildAborted" },
  RUNNING = {
    RUNNING = "BuildRetried",
    SUCCESS = "BuildCompleted",
    FAILURE = "BuildCompleted",
    ABORTED = "BuildAborted",
  },
  SUCCESS = {},
  FAILURE = {},
  ABORTED = {},
  COLLAPSED = {},
}

-- Waiting again for the same reason is no change, and has no event.
StateValidator.SAME = { BLOCKED = true, FROZEN = true }

-- The event of a retry is written when an attempt is given up. The begin of the next attempt has
-- the same event as the first one.
StateValidator.NEXT_ATTEMPT = "BuildStarted"

-- The event of a legal change, "" if nothing changes; else nil and an error. `is_next`: the change
-- begins another attempt, of a build that no worker has.
function StateValidator.event(from, to, is_next)
  local moves = StateValidator.MOVES[from]
  if not moves then
    return nil, tostring(from) .. " is no state"
  elseif from == to and StateValidator.SAME[from] then
    return ""
  elseif from == to and is_next then
    return StateValidator.NEXT_ATTEMPT
  elseif moves[to] then
    return moves[to]
  elseif next(moves) == nil then
    return nil, from .. " is final"
  end
  return nil, from .. " to " .. tostring(to) .. " is not a legal change"
end

function StateValidator.is_final(state)
  return next(StateValidator.MOVES[state]) == nil
end
