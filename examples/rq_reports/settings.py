"""Read by `rq worker -c settings`, by `rq-dashboard -c settings` and by enqueue.py."""

import os

REDIS_URL = os.environ.get("HOLDFAST_URL", "redis://127.0.0.1:6379")
RQ_DASHBOARD_REDIS_URL = REDIS_URL
QUEUES = ["reports"]
