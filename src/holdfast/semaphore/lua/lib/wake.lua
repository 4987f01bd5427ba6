-- @include give
-- @include purge

-- Takes slots and places from the dead, and gives free slots to those who wait longest. How many
-- were told.
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
