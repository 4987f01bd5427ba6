"""While clients with long pipelines fill the turns, a client with a short request need not wait for
all of them."""

import asyncio
import socket
from pathlib import Path

import pytest

from holdfast.server.core.engine import LOOK_NS
from holdfast.server.core.short_requests import HAS_EPOLL, ShortRequests
from holdfast.server.core.turn import PUT_OFF_OPS, Turn
from holdfast.server.sessions.session import Outgoing
from holdfast.store.store import FileStore
from tests.harness import encode_command
from tests.server.wire import Stopwatch, WireClient, WireServer

pytestmark = pytest.mark.source_only

needs_epoll = pytest.mark.skipif(not HAS_EPOLL, reason="sockets are watched by epoll, of Linux")
PIPELINE = encode_command("RPUSH", "log", "long") * 16
SHORT = encode_command("RPUSH", "log", "short")


def arrive(client: WireClient, data: bytes) -> None:
    """It is received; nothing runs yet."""
    client.connection.data_received(data)


def calls(server: WireServer) -> int:
    stats = server.engine.commands.stats.get("rpush")
    return 0 if stats is None else stats.calls


def with_long_turns(step_ns: int = 1) -> tuple[WireServer, list[WireClient], WireClient]:
    """Four clients with pipelines, and one that sends a command at a time."""
    server = WireServer(Stopwatch(step_ns))
    short = server.connect()
    short.command("PING")
    server.engine.has_long_turns = True
    return server, [server.connect() for _ in range(4)], short


def test_a_short_request_runs_and_is_answered_before_pipelines_that_came_first() -> None:
    server, others, short = with_long_turns()
    for client in others:
        arrive(client, PIPELINE)
    arrive(short, SHORT)
    assert server.engine.run_some()  # the turn ends: replies leave
    assert calls(server) == 1
    assert not server.engine.run_some()
    assert calls(server) == 1 + 4 * 16


def test_pipelines_run_though_short_requests_come_all_the_time() -> None:
    server, others, short = with_long_turns()
    for client in others:
        arrive(client, PIPELINE)
    arrive(short, SHORT)
    assert server.engine.run_some()
    arrive(short, SHORT)
    assert not server.engine.run_some()
    assert calls(server) == 2 + 4 * 16


@pytest.mark.parametrize("size", [3, 100])
def test_a_client_with_a_pipeline_has_no_precedence(size: int) -> None:
    server, others, client = with_long_turns()
    client.send(SHORT * size)
    before = calls(server)
    arrive(others[0], PIPELINE)
    arrive(client, SHORT)
    assert not server.engine.run_some()
    assert calls(server) == before + 17
    arrive(others[0], PIPELINE)
    arrive(client, SHORT)  # since the last time it is one
    assert server.engine.run_some()
    assert calls(server) == before + 18


def test_where_turns_are_short_requests_run_in_the_order_of_their_arrival() -> None:
    server, others, short = with_long_turns()
    server.engine.has_long_turns = False
    arrive(others[0], PIPELINE)
    arrive(short, SHORT)
    assert not server.engine.run_some()
    log = server.connect().command("LRANGE", "log", 0, -1).split(b"\r\n")[2::2]
    assert log == [b"long"] * 16 + [b"short"]


@needs_epoll
def test_a_turn_ends_early_if_a_short_request_has_come_meanwhile() -> None:
    server, others, _ = with_long_turns(LOOK_NS)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server.engine.short_requests.watch(ours.fileno())
        for client in others:
            arrive(client, PIPELINE)
        theirs.send(b"x")
        assert server.engine.run_some()
        assert 0 < calls(server) < 4 * 16
        assert server.engine.turn.is_cut
        while server.engine.run_some():
            pass
        assert calls(server) == 4 * 16
    server.engine.short_requests.close()


def test_turns_are_long_until_a_second_tick_has_seen_none() -> None:
    server, others, _ = with_long_turns(LOOK_NS)
    server.engine.has_long_turns = False
    for client in others:
        arrive(client, PIPELINE)
    server.engine.turn.end()
    server.wait(0.15)
    assert server.engine.has_long_turns
    server.wait(0.2)
    assert not server.engine.has_long_turns


def test_the_fold_is_put_off_only_for_a_while(tmp_path: Path) -> None:
    """Turns that end early would otherwise put it off for as long as short requests come."""
    store = FileStore(tmp_path / "a.db")
    turn = Turn(store, Outgoing(), "everysec")
    tidied: list[int] = []
    number = 0

    def commands() -> bool:
        nonlocal number
        for _ in range(PUT_OFF_OPS // 4):
            number += 1
            store.keyspace.databases[0].set_string(b"key-%d" % number, b"v", None)
        turn.is_cut = True
        return False

    async def turns() -> None:
        turn._loop = asyncio.get_running_loop()
        turn.run_commands = commands
        turn.tidy = lambda: tidied.append(number)  # type: ignore[method-assign]
        store.folding._is_next_aged = True  # a pass is due
        for _ in range(8):
            turn._end()
            turn._is_tidying = False
            await asyncio.sleep(0)
        turn._loop = None

    asyncio.run(turns())
    assert tidied[0] > PUT_OFF_OPS // 4  # not after the first turn
    store.abandon()


def test_a_turn_folds_after_the_short_requests_that_wait(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    turn = Turn(store, Outgoing(), "everysec")
    folded: list[bool] = []
    told: list[tuple[bool, int]] = []

    async def tidy() -> None:
        turn._loop = asyncio.get_running_loop()
        turn.is_awaited = lambda: True
        store.keep_up = lambda *args: bool(folded.append(True))  # type: ignore[func-returns-value, method-assign]
        turn.tidy()
        for _ in range(2):  # sockets are read, and short requests run
            told.append((turn.is_paused, len(folded)))
            await asyncio.sleep(0)
        told.append((turn.is_paused, len(folded)))  # it is not put off twice
        turn._loop = None

    asyncio.run(tidy())
    assert told == [(True, 0), (True, 0), (False, 1)]
    store.abandon()


def test_only_short_requests_run_while_the_fold_pauses() -> None:
    """It would fall behind otherwise: each pause would be filled with new writes."""
    server, others, short = with_long_turns()
    server.engine.turn.is_paused = True
    for client in others:
        arrive(client, PIPELINE)
    assert server.engine.run_some()
    assert calls(server) == 0
    for number in (1, 2):
        arrive(short, SHORT)
        assert server.engine.run_some()
        assert calls(server) == number
    server.engine.turn.is_paused = False
    while server.engine.run_some():
        pass
    assert calls(server) == 2 + 4 * 16


def test_a_server_that_stops_while_the_fold_pauses_runs_all_commands() -> None:
    server, others, _ = with_long_turns()
    server.engine.turn.is_paused = True
    for client in others:
        arrive(client, PIPELINE)
    asyncio.run(server.engine.turn.drain())
    assert calls(server) == 4 * 16


@needs_epoll
def test_a_request_is_seen_until_it_was_read_and_told_once() -> None:
    requests = ShortRequests()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not requests.is_ready()
        requests.watch(ours.fileno())
        assert not requests.is_ready()
        theirs.send(b"x")
        assert requests.is_ready()
        assert not requests.is_ready()
        theirs.send(b"x")
        ours.recv(10)
        assert not requests.is_ready()  # the loop has read it
        requests.forget(ours.fileno())
        theirs.send(b"x")
        assert not requests.is_ready()
    requests.close()


@needs_epoll
def test_a_socket_that_was_closed_can_come_again() -> None:
    """A new connection may get the number of the old one."""
    requests = ShortRequests()
    for _ in range(2):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            requests.watch(ours.fileno())
            theirs.send(b"x")
            assert requests.is_ready()
            assert not requests.is_ready()
    requests.watch(-1)
    requests.close()
    assert not requests.is_ready()
