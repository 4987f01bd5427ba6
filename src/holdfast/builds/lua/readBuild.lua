-- A build as it is, and all that happened to it.
-- KEYS[1] queue         the queue's own key, which begins the names of all its others
-- ARGV[1] id            the build
-- ARGV[2] history       "1": with its events
-- Returns its record; what is left of its oldest events; its events: id, fields, as XRANGE.
-- @include Record

local q, id = { root = KEYS[1] }, ARGV[1]
if ARGV[2] ~= "1" then
  return { Record.raw(q, id), {}, {} }
end
return {
  Record.raw(q, id),
  redis.call("HGETALL", Record.base_key(q, id)),
  redis.call("XRANGE", Record.events_key(q, id), "-", "+"),
}
