-- Sets the score of a member that is there: 1, or 0 if it is not. CH alone would say 0 also when
-- the score happens to be what it was.
local function refresh(key, id, score)
  local changed = redis.call('ZADD', key, 'XX', 'CH', score, id)
  if changed == 0 and redis.call('ZSCORE', key, id) then
    return 1
  end
  return changed
end
