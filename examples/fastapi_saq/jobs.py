"""The background jobs. `saq jobs.settings` runs a worker; run as many as you like."""

import asyncio
import os
from typing import Any

from saq import Queue

URL = os.environ.get("HOLDFAST_URL", "redis://127.0.0.1:6379")

queue = Queue.from_url(URL)


async def write_report(ctx: dict[str, Any], *, city: str) -> str:
    """A job may run twice, because its worker may die after the work and before it reports the
    end."""
    await asyncio.sleep(0.1)  # the work
    return f"All about {city}"


settings = {"queue": queue, "functions": [write_report], "concurrency": 8}
