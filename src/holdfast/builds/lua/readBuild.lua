-- The record of a build, and its events.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2] id            the build
-- ARGV[3] history       "1": with its events
-- Returns the record; the merged fields of trimmed events; the events: id, fields, as XRANGE.
-- @include Turns

local q, id = Queue.open(KEYS[1], ARGV[1]), ARGV[2]
if ARGV[3] ~= "1" then
  return { Turns.record(q, id), {}, {} }
end
return {
  Turns.record(q, id),
  redis.call("HGETALL", Record.base_key(q, id)),
  redis.call("XRANGE", Record.events_key(q, id), "-", "+"),
}
