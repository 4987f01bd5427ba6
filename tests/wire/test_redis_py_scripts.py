"""redis-py's own scripts, through redis-py: its Lock, and scripts that it registers."""

from collections.abc import Iterator

import pytest
import redis

from tests.harness import HoldfastServer


@pytest.fixture
def connection(server: HoldfastServer) -> Iterator[redis.Redis]:
    with redis.Redis(port=server.port) as connection:
        connection.flushall()
        yield connection


def test_a_lock_is_held_by_one(connection: redis.Redis) -> None:
    first = connection.lock("lock", timeout=100)
    second = connection.lock("lock", timeout=100, blocking=False)
    assert first.acquire()
    assert not second.acquire()
    assert first.extend(50)
    assert first.reacquire()
    assert first.owned()
    with pytest.raises(redis.exceptions.LockError):
        second.release()
    first.release()
    assert second.acquire()
    connection.delete("lock")
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        second.release()


def test_a_registered_script_loads_itself(connection: redis.Redis) -> None:
    script = connection.register_script("return {KEYS[1], ARGV[1], redis.call('incr', KEYS[1])}")
    connection.script_flush()
    assert script(keys=["k"], args=["a"]) == [b"k", b"a", 1]
    with connection.pipeline() as pipeline:
        script(keys=["k"], args=["b"], client=pipeline)
        assert pipeline.execute() == [[b"k", b"b", 2]]
