-- A build as it is, and all that happened to it.
-- KEYS[1] queue         the queue's own key, which begins the names of all its others
-- ARGV[1] now           time in ms; empty: the server's
-- ARGV[2] id            the build
-- ARGV[3] history       "1": with its events
-- Returns its record; what is left of its oldest events; its events: id, fields, as XRANGE.
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
