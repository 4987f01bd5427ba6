"""Dramatiq: its broker and actors, and its producer."""

import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from tests.web.readers.libraries import jobs

dramatiq.set_broker(RedisBroker(url=jobs.URL))
add, fail, hold = (
    dramatiq.actor(each, max_retries=0, time_limit=600_000)
    for each in (jobs.add, jobs.fail, jobs.hold)
)

if __name__ == "__main__":
    if sys.argv[1] == jobs.FIRST:
        add.send(2, 3)
        fail.send("boom")
        hold.send("here")
    else:
        for number in range(12):
            add.send(number, 1)
        add.send_with_options(args=(7, 7), delay=jobs.LATER_S * 1000)
