"""maxmemory-clients: when all clients together take too much memory, the largest are
disconnected."""

from tests.harness import encode_command
from tests.server.wire import WireClient, WireServer


def half_sent(client: WireClient, nbytes: int) -> None:
    client.send(encode_command("SET", "k", b"x" * nbytes)[: nbytes - 100])


def evicted(server: WireServer) -> int:
    return server.engine.meter.evicted_clients


def test_commands_that_are_not_whole_count() -> None:
    server = WireServer(maxmemory_clients="1mb")
    small, large = server.connect(), server.connect()
    half_sent(small, 100_000)
    half_sent(large, 800_000)
    server.wait(0.2)
    assert large.state == "open"
    half_sent(server.connect(), 200_000)
    server.wait(0.2)
    assert (small.state, large.state, evicted(server)) == ("open", "aborted", 1)


def test_replies_that_are_not_read_count() -> None:
    server = WireServer(maxmemory_clients="1mb")
    clients = [server.connect() for _ in range(4)]
    for number, client in enumerate(clients):
        client.transport.is_stuck = True
        client.send_command("ECHO", b"x" * (200_000 + 50_000 * number))
        server.engine.turn.end()
    server.wait(0.2)
    assert [client.state for client in clients] == ["open", "open", "open", "aborted"]


def test_transactions_and_commands_behind_one_that_waits_count() -> None:
    server = WireServer(maxmemory_clients="1mb")
    queueing, waiting = server.connect(), server.connect()
    queueing.send(encode_command("MULTI") + encode_command("SET", "k", b"x" * 600_000))
    waiting.send(encode_command("BLPOP", "q", 0) + encode_command("SET", "k", b"x" * 700_000))
    server.wait(0.2)
    assert (queueing.state, waiting.state) == ("open", "aborted")


def test_a_client_that_asked_for_it_is_spared() -> None:
    server = WireServer(maxmemory_clients="1mb")
    spared, other = server.connect(), server.connect()
    assert spared.command("CLIENT", "NO-EVICT", "ON") == b"+OK\r\n"
    half_sent(spared, 2_000_000)
    server.wait(0.2)
    assert (spared.state, other.state) == ("open", "aborted")
    spared.send(b"x" * 200)
    assert spared.read() == b"+OK\r\n"


def test_it_can_be_a_part_of_maxmemory_and_without_maxmemory_is_none() -> None:
    server = WireServer(maxmemory_clients="10%")
    client = server.connect()
    half_sent(client, 2_000_000)
    server.wait(0.2)
    assert client.state == "open"
    server.set("maxmemory", "10mb")
    server.wait(0.2)
    assert client.state == "aborted"


def test_without_it_no_client_is_evicted() -> None:
    server = WireServer()
    client = server.connect()
    half_sent(client, 2_000_000)
    server.wait(0.2)
    assert (client.state, evicted(server)) == ("open", 0)
