-- Freezes a job by hand: its builds do not start, as in a freeze window. Or thaws it.
-- KEYS[1] queue         the key of the queue; the names of its other keys begin with it
-- ARGV[1] now           time in ms; empty: the server's clock
-- ARGV[2] job           the name of the job
-- ARGV[3] for_ms        how long; 0: thaw it now
-- Returns the time of the thaw in ms since 1970.
-- @include Turns

local q = Queue.open(KEYS[1], ARGV[1])
local until_ms = q.now + tonumber(ARGV[3])
Turns.freeze_job(q, ARGV[2], string.format("%.0f", until_ms))
Turns.settle(q)
return until_ms
