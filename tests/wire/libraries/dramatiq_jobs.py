"""Dramatiq: its broker and actor, and its producer."""

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import ConnectionError as BrokerConnectionError

from tests.wire.libraries import book

dramatiq.set_broker(
    RedisBroker(
        url=book.URL,
        heartbeat_timeout=round(book.PATIENCE_S * 1000),
        maintenance_chance=1_000_000,  # in a million
    )
)


def work(number: int) -> None:
    book.work(number)


actor = dramatiq.actor(work, min_backoff=50, max_backoff=200, max_retries=20)


def enqueue(number: int) -> object:
    delay_s = book.delay_s(number)
    return actor.send_with_options(args=(number,), delay=round(delay_s * 1000) or None)


if __name__ == "__main__":
    book.produce(enqueue, redis.ConnectionError, BrokerConnectionError)
