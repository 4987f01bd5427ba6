-- Sets the score of a member. Returns 1, or 0 if the member is not there. CH alone would return 0
-- also if the score did not change.
local function refresh(key, id, score)
  local changed = redis.call('ZADD', key, 'XX', 'CH', score, id)
  if changed == 0 and redis.call('ZSCORE', key, id) then
    return 1
  end
  return changed
end
