"""A rate limit that all processes share, and that a restart of the server does not forget."""

import math

from fastapi import HTTPException

from holdfast.client import Client

# KEYS[1] counts the requests of a client. ARGV[1] is the length of the window in milliseconds.
# Returns the count with this request, and the milliseconds until the window ends.
COUNT = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return {count, redis.call('PTTL', KEYS[1])}
"""


async def check_limit(client: Client, name: str, limit: int, window_s: int) -> None:
    """Count one request. Raises 429 if the limit of its window is exceeded."""
    count = client.script(COUNT)
    used, left_ms = await count([f"limit:{name}"], [window_s * 1000], into=tuple[int, int])
    if used > limit:
        wait_s = math.ceil(left_ms / 1000)
        raise HTTPException(429, "too many requests", {"Retry-After": str(wait_s)})
