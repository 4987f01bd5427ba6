"""No client keeps others waiting for longer than its share: of bytes, of time, of a turn."""

import random
from collections.abc import Iterator

import pytest

from holdfast.resp.requests import MOST_AT_ONCE
from holdfast.server.core.engine import ROUND_NS, SHARE_NS, TURN_NS
from holdfast.server.net.wire_connection import AHEAD_BYTES, SHARE_BYTES
from tests.harness import encode_command
from tests.server.wire import Stopwatch, WireClient, WireServer

LONG = encode_command("RPUSH", "log", "long")
SHORT = encode_command("RPUSH", "log", "short")


def run_before_short(server: WireServer) -> int:
    """How many commands of the long pipeline ran before the other client's one."""
    log = server.connect().command("LRANGE", "log", 0, -1).split(b"\r\n")[2::2]
    assert set(log) == {b"long", b"short"}
    return log.index(b"short")


def is_reading(client: WireClient) -> bool:
    return client.transport.is_reading


def arrive(client: WireClient, data: bytes) -> None:
    """It is received; nothing runs yet."""
    client.connection.data_received(data)


# -- the share of one client before the next ------------------------------------------------------


def test_a_long_pipeline_does_not_run_whole_before_another_clients_command() -> None:
    server = WireServer(lambda: 0)  # else the limit in time could hide that there is none in bytes
    long, short = server.connect(), server.connect()
    arrive(long, LONG * 5000)
    arrive(short, SHORT)
    assert short.read() == b":%d\r\n" % (run_before_short(server) + 1)
    assert run_before_short(server) <= SHARE_BYTES // len(LONG)
    assert long.read().count(b":") == 5000


def test_many_short_lines_of_one_client_do_not_run_whole_before_another_clients_command() -> None:
    """16 KB can have thousands of them, and to split them takes longer than to run them."""
    server = WireServer(lambda: 0)
    long, short = server.connect(), server.connect()
    arrive(long, b"RPUSH log long\n" * 1000)
    arrive(short, SHORT)
    short.read()
    assert run_before_short(server) <= MOST_AT_ONCE
    assert long.read().count(b":") == 1000


def test_slow_commands_of_one_client_do_not_all_run_before_another_clients_command() -> None:
    server = WireServer(Stopwatch(SHARE_NS // 4))
    long, short = server.connect(), server.connect()
    arrive(long, LONG * 100)
    arrive(short, SHORT)
    assert short.read() == b":%d\r\n" % (run_before_short(server) + 1)
    assert run_before_short(server) <= 4
    assert long.read().count(b":") == 100


def test_commands_kept_behind_one_that_waited_do_not_all_run_before_other_commands() -> None:
    server = WireServer()
    long, short = server.connect(), server.connect()
    long.send_command("BLPOP", "k", 1)
    arrive(long, LONG * 5000)
    server.clock.advance(1)
    arrive(short, SHORT)
    short.read()
    assert 0 < run_before_short(server) <= SHARE_BYTES // len(LONG)
    assert long.read().count(b":") == 5000


def test_kept_commands_that_are_slow_do_not_all_run_before_other_commands() -> None:
    server = WireServer(Stopwatch(SHARE_NS // 4))
    long, short = server.connect(), server.connect()
    long.send(encode_command("BLPOP", "k", 1) + LONG * 100)  # parsed at once
    server.clock.advance(1)
    arrive(short, SHORT)
    short.read()
    assert 0 < run_before_short(server) <= 4


def test_a_turn_ends_when_it_has_lasted_long_enough_and_the_rest_runs_in_the_next_one() -> None:
    server = WireServer(Stopwatch(TURN_NS // 10))
    client = server.connect()
    arrive(client, LONG * 100)
    assert server.engine.run_some()  # then replies leave, and sockets are read
    first = server.engine.commands.stats["rpush"].calls
    assert 0 < first <= 10
    while server.engine.run_some():
        pass
    assert server.engine.commands.stats["rpush"].calls == 100


def test_a_client_that_could_not_run_in_a_turn_is_first_in_the_next_one() -> None:
    server = WireServer(Stopwatch(TURN_NS))  # one share for each turn
    clients = [server.connect() for _ in range(5)]
    for number, client in enumerate(clients):
        arrive(client, encode_command("RPUSH", "log", number) * 2)
    server.engine.turn.end()
    log = server.connect().command("LRANGE", "log", 0, -1).split(b"\r\n")[2::2]
    assert log == [b"%d" % number for number in [*range(5), *range(5)]]


def test_a_turn_does_not_end_before_each_client_has_had_a_share() -> None:
    """50 clients with 16 transactions each took four turns, and four commits."""
    server = WireServer(Stopwatch(TURN_NS // 2))  # which a share takes
    clients = [server.connect() for _ in range(4)]
    for number, client in enumerate(clients):
        arrive(client, encode_command("RPUSH", "log", number) * 2)
    assert server.engine.run_some()
    assert 4 <= server.engine.commands.stats["rpush"].calls < 8
    log = server.connect().command("LRANGE", "log", 0, 3).split(b"\r\n")[2::2]
    assert log == [b"%d" % number for number in range(4)]


def test_a_turn_ends_within_a_round_that_takes_very_long() -> None:
    server = WireServer(Stopwatch(ROUND_NS))
    clients = [server.connect() for _ in range(4)]
    for number, client in enumerate(clients):
        arrive(client, encode_command("RPUSH", "log", number))
    assert server.engine.run_some()
    assert server.engine.commands.stats["rpush"].calls == 1


# -- how much is received ahead -------------------------------------------------------------------


def test_the_socket_of_a_client_that_is_ahead_is_not_read_until_it_has_been_run() -> None:
    server = WireServer()
    client = server.connect()
    arrive(client, LONG * (AHEAD_BYTES // len(LONG)))
    assert is_reading(client)
    arrive(client, LONG)
    assert not is_reading(client)
    client.read()
    assert is_reading(client)


def test_the_socket_of_a_client_that_waits_is_read_so_that_its_leaving_is_noticed() -> None:
    server = WireServer()
    client, other = server.connect(), server.connect()
    arrive(client, encode_command("BLPOP", "k", 0) + LONG * (AHEAD_BYTES // len(LONG)))
    assert not is_reading(client)
    client.read()
    assert is_reading(client)
    arrive(client, LONG * 100)
    assert is_reading(client)
    assert not client.connection.eof_received()
    assert other.command("RPUSH", "k", "v") == b":1\r\n"
    assert other.command("LLEN", "k") == b":1\r\n"


# -- a client that leaves -------------------------------------------------------------------------


def test_all_that_was_asked_before_the_end_of_the_stream_is_answered_in_its_turn() -> None:
    server = WireServer()
    leaving, other = server.connect(), server.connect()
    arrive(leaving, LONG * 5000)
    assert leaving.connection.eof_received()  # the transport stays
    arrive(other, SHORT)
    other.read()
    assert run_before_short(server) <= SHARE_BYTES // len(LONG)
    assert leaving.transport.read().count(b":") == 5000
    assert leaving.state == "closed"
    assert len(server.engine.sessions) == 2  # `other`, and the one that looked


def test_what_a_lost_client_has_sent_is_done_in_its_turn() -> None:
    server = WireServer()
    lost, other = server.connect(), server.connect()
    arrive(lost, LONG * 5000)
    lost.transport.abort()
    arrive(other, SHORT)
    other.read()
    assert run_before_short(server) <= SHARE_BYTES // len(LONG)
    assert other.command("LLEN", "log") == b":5001\r\n"
    assert lost.transport.read() == b""
    assert len(server.engine.sessions) == 2
    assert not hasattr(lost.connection, "session")  # the two do not keep each other in memory


@pytest.mark.parametrize("leave", ["eof_received", "connection_lost"])
def test_a_client_that_left_takes_nothing_with_a_command_that_waits(leave: str) -> None:
    server = WireServer()
    client, other = server.connect(), server.connect()
    arrive(client, LONG * 1000 + encode_command("BLPOP", "k", 0) + LONG)
    if leave == "eof_received":
        client.connection.eof_received()
    else:
        client.connection.connection_lost(None)
    server.engine.turn.end()
    assert other.command("LLEN", "log") == b":1000\r\n"  # nothing behind it has run
    assert other.command("RPUSH", "k", "v") == b":1\r\n"
    assert other.command("LLEN", "k") == b":1\r\n"
    assert len(server.engine.sessions) == 1


def test_nothing_behind_quit_runs_when_the_client_has_left() -> None:
    server = WireServer()
    client, other = server.connect(), server.connect()
    arrive(client, encode_command("QUIT") + LONG * 5000)
    client.connection.connection_lost(None)
    server.engine.turn.end()
    assert other.command("EXISTS", "log") == b":0\r\n"
    assert len(server.engine.sessions) == 1


# -- shares change nothing but the order ----------------------------------------------------------


def story(rng: random.Random, name: str) -> Iterator[bytes]:
    """Commands on keys of one's own, whose replies depend on all that came before."""
    for number in range(rng.randrange(50, 400)):
        command: tuple[object, ...] = rng.choice(
            [
                ("INCR", f"{name}:n"),
                ("RPUSH", f"{name}:list", number),
                ("LRANGE", f"{name}:list", 0, -1),
                ("SET", f"{name}:s", "x" * rng.choice([1, 100, 40_000])),
                ("GET", f"{name}:s"),
                ("BLPOP", f"{name}:list", "0.01"),
                ("NOSUCH", number),
                ("EXEC",),
            ]
        )
        if rng.random() < 0.1:
            yield encode_command("MULTI")
            yield encode_command("INCR", f"{name}:n")
            yield encode_command("EXEC")
        elif rng.random() < 0.1:
            yield b"ECHO '%d' \"\\x41\"\r\nINCR %s:n\r\n" % (number, name.encode())
        yield encode_command(*map(str, command))


def pieces(rng: random.Random, stream: bytes) -> Iterator[bytes]:
    while stream:
        size = rng.choice([1, 7, 100, 5000, SHARE_BYTES, SHARE_BYTES + 1, 100_000])
        yield stream[:size]
        stream = stream[size:]


def replies_alone(stream: bytes) -> bytes:
    server = WireServer()
    client = server.connect()
    client.send(stream)
    replies = client.read()
    while client.connection.session.is_waiting:
        server.wait(1)
        replies += client.read()
    return replies


@pytest.mark.parametrize("step_ns", [0, SHARE_NS // 20, SHARE_NS // 2, TURN_NS])
def test_every_client_is_answered_as_if_it_were_alone(rng: random.Random, step_ns: int) -> None:
    streams = [b"".join(story(rng, f"client{number}")) for number in range(3)]
    server = WireServer(Stopwatch(step_ns) if step_ns else lambda: 0)
    clients = [server.connect() for _ in streams]
    arriving = [list(pieces(rng, stream)) for stream in streams]
    while any(arriving):
        number = rng.choice([number for number, rest in enumerate(arriving) if rest])
        arrive(clients[number], arriving[number].pop(0))
        if rng.random() < 0.5:
            server.engine.run_some()
        if rng.random() < 0.1:
            server.engine.turn.end()
    server.engine.turn.end()
    while any(client.connection.session.is_waiting for client in clients):
        server.wait(1)
    assert [client.read() for client in clients] == [replies_alone(stream) for stream in streams]
