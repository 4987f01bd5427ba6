-- @include give
-- @include purge

-- Removes dead holders and waiters, and gives free slots to the waiters that wait longest. Returns
-- the number of waiters that got a slot.
local function wake_up_nexts(
  main, ttl, waiting, waiting_heartbeat, limit, heartbeat_s, ttl_s, now, pattern, token
)
  purge_slots(main, ttl, now)
  purge_waiting(waiting, waiting_heartbeat, now)
  local card = redis.call('ZCARD', main)
  return give_slots(
    main, waiting, waiting_heartbeat, card, limit, heartbeat_s, ttl_s, now, pattern, token
  )
end
