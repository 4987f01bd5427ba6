-- When windows of time, written as cron, are open. Pure: no Redis call.
-- A window is "minutes hours days months weekdays": each `*`, or numbers such as `,0,30,`; cron.py
-- writes them so. Several windows are lines. All in UTC.
local CronDecider = {}

local MINUTE, HOUR, DAY = 60000, 3600000, 86400000
local HORIZON = 5 * 366 * DAY -- 29 February comes again within it, mostly

local function has(field, number)
  return field == "*" or string.find(field, "," .. number .. ",", 1, true) ~= nil
end

-- Month, day and weekday (Sunday is 0) of a time: the civil calendar from a count of days, with
-- years that begin in March, so that the leap day is the last.
local function date(ms)
  local days = math.floor(ms / DAY)
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local of_era = shifted - era * 146097
  local year = math.floor(
    (of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) - math.floor(of_era / 146096))
      / 365
  )
  local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local from_march = math.floor((5 * of_year + 2) / 153)
  local day = of_year - math.floor((153 * from_march + 2) / 5) + 1
  return (from_march + 2) % 12 + 1, day, (days + 4) % 7
end

-- As in cron: where both the day and the weekday are restricted, either will do.
local function has_day(window, ms)
  local month, day, weekday = date(ms)
  if not has(window.months, month) then
    return false
  elseif window.days ~= "*" and window.weekdays ~= "*" then
    return has(window.days, day) or has(window.weekdays, weekday)
  end
  return has(window.days, day) and has(window.weekdays, weekday)
end

-- Whether a window is open at a time, and until when that surely stays so.
local function look(window, ms)
  local next_day = (math.floor(ms / DAY) + 1) * DAY
  local next_hour = (math.floor(ms / HOUR) + 1) * HOUR
  local next_minute = (math.floor(ms / MINUTE) + 1) * MINUTE
  if not has_day(window, ms) then
    return false, next_day
  elseif not has(window.hours, math.floor(ms / HOUR) % 24) then
    return false, next_hour
  elseif not has(window.minutes, math.floor(ms / MINUTE) % 60) then
    return false, next_minute
  elseif window.minutes ~= "*" then
    return true, next_minute
  end
  return true, window.hours == "*" and next_day or next_hour
end

local function parse(text)
  local windows = {}
  for minutes, hours, days, months, weekdays in
    string.gmatch(text, "(%S+) (%S+) (%S+) (%S+) (%S+)")
  do
    windows[#windows + 1] =
      { minutes = minutes, hours = hours, days = days, months = months, weekdays = weekdays }
  end
  return windows
end

-- The first time from `ms` on at which any window is open, or with `open` false at which none is;
-- nil if there is none for years.
function CronDecider.first(text, ms, open)
  local windows, last = parse(text), ms + HORIZON
  while ms < last do
    local is_open, closed_until, open_until = false, math.huge, ms
    for _, window in ipairs(windows) do
      local this, sure_until = look(window, ms)
      if this then
        is_open, open_until = true, math.max(open_until, sure_until)
      else
        closed_until = math.min(closed_until, sure_until)
      end
    end
    if is_open == open then
      return ms
    end
    ms = is_open and open_until or closed_until
  end
  return nil
end
