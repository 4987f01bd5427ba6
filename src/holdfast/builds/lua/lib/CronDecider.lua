-- Computes when windows, which are written as cron, are open. Pure: no Redis call.
-- A window is "minutes hours days months weekdays". Each is `*`, or numbers such as `,0,30,`:
-- cron_expressions.py writes them in this form. Several windows are several lines. All in UTC.
local CronDecider = {}

local MINUTE, DAY = 60000, 86400000
local HORIZON_DAYS = 8 * 366 -- it has a 29 February, also around a year 2100 without one
local HALF = 30 -- the minutes of an hour are bits in two numbers of 30 bits
local ALL = 2 ^ HALF - 1

-- Month, day and weekday (Sunday is 0) of a day since 1970: the civil calendar, with years that
-- begin in March, so that the leap day is the last.
local function date(days)
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

-- The numbers of a field as a set; nil for all.
local function set(field)
  if field == "*" then
    return nil
  end
  local numbers = {}
  for number in string.gmatch(field, "%d+") do
    numbers[tonumber(number)] = true
  end
  return numbers
end

-- The first and the second half of the minutes of a set.
local function halves(minutes)
  if not minutes then
    return { ALL, ALL }
  end
  local found = { 0, 0 }
  for minute in pairs(minutes) do
    local half = minute < HALF and 1 or 2
    found[half] = found[half] + 2 ^ (minute % HALF)
  end
  return found
end

local function parse(text)
  local windows = {}
  for minutes, hours, days, months, weekdays in
    string.gmatch(text, "(%S+) (%S+) (%S+) (%S+) (%S+)")
  do
    windows[#windows + 1] = {
      minutes = halves(set(minutes)),
      hours = set(hours),
      days = set(days),
      months = set(months),
      weekdays = set(weekdays),
    }
  end
  return windows
end

-- As in cron: if both the day and the weekday are restricted, one of them is enough.
local function has_day(window, month, day, weekday)
  local days, weekdays = window.days, window.weekdays
  if window.months and not window.months[month] then
    return false
  elseif days and weekdays then
    return days[day] or weekdays[weekday]
  end
  return (not days or days[day]) and (not weekdays or weekdays[weekday])
end

-- The minutes of a day in which at least one window is open: two numbers for each hour.
local function union(windows)
  local hours = {}
  for hour = 0, 23 do
    local first, second = 0, 0
    for _, window in ipairs(windows) do
      if not window.hours or window.hours[hour] then
        first, second = bit.bor(first, window.minutes[1]), bit.bor(second, window.minutes[2])
        if first == ALL and second == ALL then
          break
        end
      end
    end
    hours[#hours + 1], hours[#hours + 2] = first, second
  end
  return hours
end

-- The first open minute of a day at or after `from`, or with `open` false the first closed one; nil
-- if there is none.
local function first_minute(hours, from, open)
  local none = open and 0 or ALL
  for half = math.floor(from / HALF), #hours - 1 do
    if hours[half + 1] ~= none then
      for minute = math.max(from, half * HALF), half * HALF + HALF - 1 do
        if (bit.band(hours[half + 1], 2 ^ (minute % HALF)) ~= 0) == open then
          return minute
        end
      end
    end
  end
  return nil
end

-- The first time at or after `ms` at which at least one window is open, or with `open` false at
-- which no window is open. nil: there is no such time for years, or within today and `days` more
-- days. The work is limited: each window is checked once for each day, and the hours are computed
-- once for all days that have the same windows.
function CronDecider.first(text, ms, open, days)
  local windows, is_full = parse(text), {}
  local today = math.floor(ms / DAY)
  for day = today, today + (days or HORIZON_DAYS) do
    local month, of_month, weekday = date(day)
    local on_day, names = {}, {}
    for n, window in ipairs(windows) do
      if has_day(window, month, of_month, weekday) then
        on_day[#on_day + 1], names[#names + 1] = window, n
      end
    end
    local name = table.concat(names, " ")
    if day == today then
      local minute = first_minute(union(on_day), math.floor(ms % DAY / MINUTE), open)
      if minute then
        return math.max(ms, day * DAY + minute * MINUTE)
      end
    elseif not is_full[name] then
      local minute = first_minute(union(on_day), 0, open)
      if minute then
        return day * DAY + minute * MINUTE
      end
      is_full[name] = true
    end
  end
  return nil
end
