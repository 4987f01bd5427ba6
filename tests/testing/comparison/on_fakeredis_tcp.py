"""The cases on the server of fakeredis, which is a thread: `pytest -p on_fakeredis_tcp`."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import fakeredis
import pytest
import redis


@pytest.fixture
def url() -> Iterator[str]:
    server = fakeredis.TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    server.daemon_threads = True  # one of them may run a script for ever
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    server.shutdown()
    server.socket.close()  # server_close() would wait for the threads of open connections


@pytest.fixture
def connect(url: str) -> Iterator[Callable[..., Any]]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(
            redis.Redis.from_url(url, **{"decode_responses": True} | options)
        )


@pytest.fixture
def restart() -> Callable[[], None]:
    pytest.fail("it keeps nothing")
