-- The string library. Nothing can interrupt a C function, and some calls would run for very long. So the
-- work of a call is estimated first, and too much work is done in Lua, which the hook can interrupt.

local string, python = ...

local byte, char, raw_find, raw_match = string.byte, string.char, string.find, string.match
local raw_gmatch, raw_rep, sub = string.gmatch, string.rep, string.sub
local raw_gsub = python.nested(string.gsub)
local type, tostring, select, unpack, concat = type, tostring, select, unpack, table.concat
local watch = python.watch

local MUCH = 1e8 -- steps that one C call may take: up to half a second
local WORTH_A_LOOK = 1e5 -- steps; the clock is checked before a call that may take more

-- Makes a function of one text remember its results. A script may use any number of texts, of any length, so
-- only results for short texts are kept, and not too many of them.
local LONGEST_KEPT, MOST_KEPT = 200, 1000
local function remembering(compute)
  local known, count = {}, 0
  return function(text)
    local result = known[text]
    if result then return result end
    result = compute(text)
    if #text <= LONGEST_KEPT then
      if count >= MOST_KEPT then known, count = {}, 0 end
      known[text], count = result, count + 1
    end
    return result
  end
end

local strings = {}
for name in raw_gmatch("byte char lower reverse sub upper", "%S+") do
  strings[name] = string[name]
end

function strings.len(...)
  if select("#", ...) == 0 then python.bad_argument(1, "string expected, got no value") end
  return string.len(...)
end

function strings.dump(...)
  if type((...)) == "function" and python.getinfo((...), "S").source == "=holdfast" then
    python.fail("unable to dump given function")
  end
  return string.dump(...)
end

-- -- format -----------------------------------------------------------------------------------------

-- LuaJIT's format accepts more than that of Lua 5.1. Formats that Lua 5.1 refuses are refused before the call.
local TOO_LONG = "invalid format (width or precision too long)"

local specifications_of = remembering(function(form)
  local found, at = {}, 1
  while true do
    at = raw_find(form, "%", at, true)
    if not at then return found end
    if sub(form, at + 1, at + 1) == "%" then
      at = at + 2
    else
      local _, last, flags, width, precision = raw_find(form, "^([-+ #0]*)(%d?%d?)(%.?%d?%d?)", at + 1)
      local kind = sub(form, last + 1, last + 1)
      local problem
      if #flags > 5 then
        problem = "invalid format (repeated flags)"
      elseif raw_find(kind, "^%d") then
        problem = TOO_LONG
      elseif not raw_find(kind, "^[cdiouxXeEfgGqs]") then
        problem = "invalid option '%" .. (kind == "\0" and "" or kind) .. "' to 'format'"
      end
      found[#found + 1] = { kind = kind, problem = problem }
      at = last + 2
    end
  end
end)

function strings.format(...)
  local count, form = select("#", ...), ...
  if type(form) == "number" then form = tostring(form) end
  if type(form) ~= "string" then return string.format(...) end
  local values
  for index, one in ipairs(specifications_of(form)) do
    if index >= count then python.bad_argument(index + 1, "no value") end
    if one.problem then python.fail(one.problem) end
    local value = select(index + 1, ...)
    local kind = type(value)
    if one.kind == "s" or one.kind == "q" then
      if kind ~= "string" and kind ~= "number" then
        python.bad_argument(index + 1, "string expected, got " .. kind)
      end
      -- The printf of C, which Lua 5.1 calls, ends a text at a NUL.
      if one.kind == "s" and kind == "string" and #value < 100 and raw_find(value, "%z") then
        values = values or { select(2, ...) }
        values[index] = raw_match(value, "^[^%z]*")
      end
    elseif kind ~= "number" and not tonumber(value) then
      python.bad_argument(index + 1, "number expected, got " .. kind)
    end
  end
  if values then return string.format(form, unpack(values, 1, count - 1)) end
  return string.format(...)
end

function strings.rep(...)
  local text, count = ...
  if (type(text) == "string" and #text or 1) * (tonumber(count) or 0) > WORTH_A_LOOK then watch() end
  if select("#", ...) > 2 then return raw_rep(text, count) end -- drops the third argument, LuaJIT's separator
  return raw_rep(...)
end

-- -- how much work a pattern can be ---------------------------------------------------------------

-- Parses a pattern into its items, each with its quantifier. A malformed pattern ends with an item that
-- raises an error when it is matched, because C raises the error only when it reaches that place. In gmatch,
-- `^` is an ordinary character.
local function parse(pattern, for_gmatch)
  local nodes, at, size = {}, 1, #pattern
  local anchored = not for_gmatch and sub(pattern, 1, 1) == "^"
  if anchored then at = 2 end
  local item
  local function malformed()
    nodes[#nodes + 1] = { kind = "malformed", rest = sub(pattern, item) }
    return nodes, anchored
  end
  while at <= size do
    item = at
    local c = sub(pattern, at, at)
    local node
    if c == "(" then
      node = sub(pattern, at + 1, at + 1) == ")" and { kind = "position" } or { kind = "open" }
      at = at + (node.kind == "position" and 2 or 1)
    elseif c == ")" then
      node, at = { kind = "close" }, at + 1
    elseif c == "$" and at == size then
      node, at = { kind = "end" }, at + 1
    else
      local following = sub(pattern, at + 1, at + 1)
      if c == "%" and following == "b" then
        node = { kind = "balanced", opens = byte(pattern, at + 2), closes = byte(pattern, at + 3) }
        if not node.closes then return malformed() end
        at = at + 4
      elseif c == "%" and raw_match(following, "^%d$") then
        node, at = { kind = "again", number = tonumber(following) }, at + 2
      else
        local frontier = c == "%" and following == "f"
        local first = frontier and at + 2 or at
        local last = first
        local start = sub(pattern, first, first)
        if start == "%" then
          last = first + 1
        elseif start == "[" then
          last = first + 1
          if sub(pattern, last, last) == "^" then last = last + 1 end
          repeat -- `]` at the first place is an element, not the end
            if last > size then return malformed() end
            if sub(pattern, last, last) == "%" then last = last + 1 end
            last = last + 1
          until sub(pattern, last, last) == "]"
        elseif frontier then
          return malformed()
        end
        if last > size then return malformed() end
        node = { kind = frontier and "frontier" or "one", class = sub(pattern, first, last) }
        at = last + 1
        local quantifier = sub(pattern, at, at)
        if not frontier and raw_find("*+-?", quantifier, 1, true) and quantifier ~= "" then
          node.quantifier, at = quantifier, at + 1
        end
      end
    end
    nodes[#nodes + 1] = node
  end
  return nodes, anchored
end

-- The work of a match grows with some power of the length of the text. This is the exponent. Each repeating
-- item counts, and so does the start of a match that is not anchored. A repeating item at the end of the
-- pattern does not count: no item follows that could fail and make it try another length.
local function power_of(pattern, for_gmatch)
  local nodes, anchored = parse(pattern, for_gmatch)
  local power = anchored and 0 or 1
  for index, node in ipairs(nodes) do
    if node.kind == "balanced" or node.kind == "again" then power = power + 1 end
    if node.quantifier and index < #nodes then power = power + 1 end
  end
  return power
end
local power_of_match = remembering(function(pattern) return power_of(pattern, false) end)
local power_of_gmatch = remembering(function(pattern) return power_of(pattern, true) end)

-- Whether the work of a match is small enough for C.
local function is_bounded(text, pattern, for_gmatch)
  if type(text) ~= "string" or type(pattern) ~= "string" then return true end
  local size = #text
  if size < 32 and #pattern < 16 then return true end
  local power = (for_gmatch and power_of_gmatch or power_of_match)(pattern)
  local work = (size + 1) ^ power * (#pattern + 1)
  if work > WORTH_A_LOOK then
    watch()
    return work <= MUCH
  end
  return true
end

-- -- matching in Lua -----------------------------------------------------------------------------

-- The set of the bytes in a class of characters.
local set_of = remembering(function(class)
  local set = {}
  local pattern = "^" .. (#class == 1 and class ~= "." and "%" .. class or class) .. "$"
  if #class == 1 and raw_match(class, "%w") then pattern = "^" .. class .. "$" end
  for code = 0, 255 do
    if raw_find(char(code), pattern) then set[code] = true end
  end
  return set
end)

local function matcher(text, pattern, for_gmatch)
  local nodes, anchored = parse(pattern, for_gmatch)
  for _, node in ipairs(nodes) do
    if node.class then node.set = set_of(node.class) end
  end
  local count, size = #nodes, #text
  local starts, ends, captures = {}, {}, 0
  local POSITION, OPEN = -2, -1

  local function step(at, index)
    while true do
      if index > count then return at end
      local node = nodes[index]
      local kind = node.kind
      if kind == "one" then
        local set, quantifier = node.set, node.quantifier
        if not quantifier then
          if at > size or not set[byte(text, at)] then return nil end
          at, index = at + 1, index + 1
        elseif quantifier == "-" then
          while true do
            local found = step(at, index + 1)
            if found then return found end
            if at > size or not set[byte(text, at)] then return nil end
            at = at + 1
          end
        else
          local first, limit = at, quantifier == "?" and at or size
          while at <= limit and at <= size and set[byte(text, at)] do at = at + 1 end
          local least = quantifier == "+" and first + 1 or first
          while at >= least do
            local found = step(at, index + 1)
            if found then return found end
            at = at - 1
          end
          return nil
        end
      elseif kind == "open" or kind == "position" then
        captures = captures + 1
        starts[captures], ends[captures] = at, kind == "position" and POSITION or OPEN
        local found = step(at, index + 1)
        if not found then captures = captures - 1 end
        return found
      elseif kind == "close" then
        local open = captures
        while open > 0 and ends[open] ~= OPEN do open = open - 1 end
        if open == 0 then python.fail("invalid pattern capture") end
        ends[open] = at
        local found = step(at, index + 1)
        if not found then ends[open] = OPEN end
        return found
      elseif kind == "end" then
        if at <= size then return nil end
        index = index + 1
      elseif kind == "balanced" then
        if byte(text, at) ~= node.opens then return nil end
        local depth, scan = 1, at + 1
        while true do
          local code = byte(text, scan)
          if not code then return nil end
          if code == node.closes then
            depth = depth - 1
            if depth == 0 then break end
          elseif code == node.opens then
            depth = depth + 1
          end
          scan = scan + 1
        end
        at, index = scan + 1, index + 1
      elseif kind == "frontier" then
        local before = at > 1 and byte(text, at - 1) or 0
        if node.set[before] or not node.set[byte(text, at) or 0] then return nil end
        index = index + 1
      elseif kind == "malformed" then
        raw_find("", node.rest)
      else -- a back reference: the text of an earlier capture, again
        local number = node.number
        if number == 0 or number > captures or ends[number] < 0 then
          python.fail("invalid capture index")
        end
        local part = sub(text, starts[number], ends[number] - 1)
        if sub(text, at, at + #part - 1) ~= part then return nil end
        at, index = at + #part, index + 1
      end
    end
  end

  local function attempt(at)
    captures = 0
    return step(at, 1)
  end

  local function captured(number, first, after)
    if number > captures then
      if number == 1 then return sub(text, first, after - 1) end
      python.fail("invalid capture index")
    end
    if ends[number] == POSITION then return starts[number] end
    if ends[number] == OPEN then python.fail("unfinished capture") end
    return sub(text, starts[number], ends[number] - 1)
  end

  local function all(first, after, with_whole)
    local values = {}
    for number = 1, (captures == 0 and with_whole) and 1 or captures do
      values[number] = captured(number, first, after)
    end
    return values, #values
  end

  return attempt, captured, all, anchored
end

local function start_of(text, init)
  init = tonumber(init) or 1
  if init < 0 then init = #text + init + 1 end
  return init < 1 and 1 or init
end

local function search(text, pattern, init)
  local attempt, _, all, anchored = matcher(text, pattern)
  local at = start_of(text, init)
  repeat
    local after = attempt(at)
    if after then return at, after, all end
    at = at + 1
  until anchored or at > #text + 1
end

function strings.find(...)
  local text, pattern, init, plain = ...
  if plain or (type(pattern) == "string" and not raw_find(pattern, "[%^%$%*%+%?%.%(%)%[%%%-]")) then
    if type(text) == "string" and type(pattern) == "string" and #text * #pattern > MUCH then
      watch()
      local at = start_of(text, init)
      at = at <= #text + 1 and python.find(text, pattern, at) or nil
      if at then return at, at + #pattern - 1 end
      return nil
    end
    return raw_find(...)
  end
  if is_bounded(text, pattern) then return raw_find(...) end
  local first, after, all = search(text, pattern, init)
  if not first then return nil end
  local values, count = all(first, after, false)
  return first, after - 1, unpack(values, 1, count)
end

function strings.match(...)
  local text, pattern, init = ...
  if is_bounded(text, pattern) then return raw_match(...) end
  local first, after, all = search(text, pattern, init)
  if not first then return nil end
  local values, count = all(first, after, true)
  return unpack(values, 1, count)
end

function strings.gmatch(...)
  local text, pattern = ...
  if is_bounded(text, pattern, true) then return raw_gmatch(...) end
  local attempt, _, all = matcher(text, pattern, true)
  local at = 1
  return function()
    while at <= #text + 1 do
      local first, after = at, attempt(at)
      if after then
        at = after == first and after + 1 or after
        local values, count = all(first, after, true)
        return unpack(values, 1, count)
      end
      at = at + 1
    end
  end
end
strings.gfind = strings.gmatch

-- Whether C may build the replacements. (A replacement without `%` is only copied, so memory limits it.)
local function is_short(text, replacement)
  return type(text) ~= "string" or type(replacement) ~= "string" or #text * #replacement <= MUCH
    or not raw_find(replacement, "%", 1, true)
end

function strings.gsub(...)
  local text, pattern, replacement, limit = ...
  if is_bounded(text, pattern) and (is_short(text, replacement) or type(pattern) ~= "string") then
    return raw_gsub(...)
  end
  local attempt, captured, all, anchored = matcher(text, pattern)
  local kind, pieces, done, at = type(replacement), {}, 0, 1
  if kind == "number" then replacement, kind = tostring(replacement), "string" end
  if kind ~= "string" and kind ~= "table" and kind ~= "function" then
    return raw_gsub("", "", replacement) -- raises the error for this type
  end
  while done < (limit or math.huge) do
    local after = attempt(at)
    if after then
      done = done + 1
      local whole, value = sub(text, at, after - 1), nil
      if kind == "string" then
        value = raw_gsub(replacement, "%%(.)", function(c)
          if c == "0" then return whole end
          if raw_match(c, "%d") then return tostring(captured(tonumber(c), at, after)) end
          return c
        end)
      elseif kind == "table" then
        value = replacement[captured(1, at, after)]
      else
        local values, count = all(at, after, true)
        value = replacement(unpack(values, 1, count))
      end
      if not value then
        value = whole
      elseif type(value) ~= "string" and type(value) ~= "number" then
        python.fail("invalid replacement value (a " .. type(value) .. ")")
      end
      pieces[#pieces + 1] = value
    end
    if after and after > at then
      at = after
    elseif at <= #text then
      pieces[#pieces + 1] = sub(text, at, at)
      at = at + 1
    else
      break
    end
    if anchored then break end
  end
  pieces[#pieces + 1] = sub(text, at)
  return concat(pieces), done
end

return strings
