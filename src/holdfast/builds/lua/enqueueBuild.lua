-- Creates the record of a build and decides whether it may start, in the same call.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2] id            a whole number; empty: the next one
-- ARGV[3] once          without an id: a name for this call, so that a call sent twice counts once
-- ARGV[4+] fields       of the record: name, value, name, value
-- Returns id, action, reason, state, blocking builds, an error, jobs that block each other in a
--   circle; and 1 on an active-active database.
-- @include Arrivals

local q = Queue.open(KEYS[1], ARGV[1])
local fields = { unpack(ARGV, 4) }
local problem = Arrivals.problem(q, fields)
if problem then
  return { ARGV[2], "REFUSE", "BAD_BUILD", "", "", problem, "" }
end
local id = ARGV[2] ~= "" and ARGV[2] or Arrivals.new_id(q, ARGV[3])
if not Record.exists(q, id) then
  Arrivals.enqueue(q, id, fields)
  Turns.settle(q)
  return { id, Record.decision(Record.raw(q, id)) }
elseif not Record.matches(q, id, fields) then
  return { id, "REFUSE", "ID_TAKEN", "", "", "build " .. id .. " exists with other settings", "" }
end
return { id, Record.decision(Turns.record(q, id)) }
