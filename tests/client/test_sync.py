"""The blocking facade: the same results, plain types, many threads."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast.sync
from holdfast.client.errors import (
    ClosedError,
    ConnectError,
    ConversionError,
    RequestTimeoutError,
    ServerError,
)
from holdfast.client.request import Request


def test_the_same_without_await(url: str) -> None:
    with holdfast.sync.connect(url) as client:
        assert client.is_connected
        assert client.set("k", "v")
        value: str | None = client.get("k")
        raw: bytes | None = client.binary.get("k")
        assert (value, raw) == ("v", b"v")
        number: int = client.exec("INCR", "n", into=int)
        assert number == 1
        _, second = client.exec(Request().add("GET", "k").add("LPUSH", "k", 1), into=(str, int))
        assert isinstance(second, ServerError)
        assert client.exec_dynamic(Request().add("INCR", "n"), into=int) == [2]
        assert client.transaction().add("SET", "a", 1).add("INCR", "a").commit((bool, int)) == [
            True,
            2,
        ]
        with client.transaction("a") as tx:
            assert tx.add("SET", "a", tx.exec("GET", "a", into=int) + 1).commit() == [b"OK"]
        assert client.blpop("q", timeout_s=0.01) is None
        with pytest.raises(RequestTimeoutError):
            client.within(0.02).blpop("q", timeout_s=0)
        with pytest.raises(ConversionError):
            client.exec("GET", "k", into=int)
        with pytest.raises(ServerError):
            client.incr("k")
        assert set(client.scan_iter()) == {"k", "n", "a"}
    with pytest.raises(ClosedError):
        client.ping()
    client.close()


def test_threads_share_a_client(url: str) -> None:
    with holdfast.sync.connect(url) as client, ThreadPoolExecutor(8) as pool:

        def work(n: int) -> bool:
            return all(client.echo(f"{n}:{m}") == f"{n}:{m}" for m in range(50))

        assert all(pool.map(work, range(8)))


def test_messages_by_iteration(redis_url: str) -> None:
    with holdfast.sync.connect(redis_url) as client, client.pubsub() as pubsub:
        pubsub.subscribe("a")
        pubsub.psubscribe("b*")
        client.publish("a", "1")
        client.publish("bc", "2")
        assert [next(pubsub).text, next(pubsub).text] == ["1", "2"]
        pubsub.close()
        assert list(pubsub) == []


def test_scripts(redis_url: str) -> None:
    with holdfast.sync.connect(redis_url) as client:
        assert client.script("return #KEYS")(["a", "b"], into=int) == 2


def test_a_failed_connect_leaves_nothing_running() -> None:
    import threading

    before = threading.active_count()
    with pytest.raises(ConnectError), holdfast.sync.connect("redis://127.0.0.1:1"):
        pass
    assert threading.active_count() == before
