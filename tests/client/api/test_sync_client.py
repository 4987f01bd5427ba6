"""The blocking facade: the same results, plain types, many threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import holdfast.sync
from holdfast.client.errors import (
    ClosedError,
    ConnectError,
    ConversionError,
    RequestTimeoutError,
    ServerError,
)
from holdfast.client.protocol.request import Request


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


def test_conversion_runs_in_the_callers_thread() -> None:
    def convert(reply: Any) -> int:
        return threading.get_ident()

    mine = threading.get_ident()
    with holdfast.sync.connect("memory://") as client:
        client.set("k", "v")
        assert client.exec("GET", "k", into=convert) == mine
        assert client.exec(Request().add("GET", "k"), into=(convert,)) == (mine,)
        assert client.exec_dynamic(Request().add("GET", "k"), into=convert) == [mine]
        assert client.script("return 1")(into=convert) == mine
        assert client.transaction().add("GET", "k").commit(convert) == [mine]
        with client.transaction("k") as tx:
            assert tx.exec("GET", "k", into=convert) == mine


def test_a_client_closed_by_another_thread_forgets_no_call(url: str) -> None:
    for _ in range(5):
        client = holdfast.sync.connect(url)
        client.connect()

        def work(client: holdfast.sync.SyncClient = client) -> str:
            while True:
                try:
                    client.ping()
                    client.blpop("q", timeout_s=0.001)
                except ClosedError:
                    return "closed"

        with ThreadPoolExecutor(4) as pool:
            ends = [pool.submit(work) for _ in range(4)]
            client.ping()
            client.close()
            assert [end.result() for end in ends] == ["closed"] * 4


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
    with pytest.raises(ConnectError), holdfast.sync.connect("redis://127.0.0.1:1"):
        pass
    assert "holdfast client" not in [thread.name for thread in threading.enumerate()]
