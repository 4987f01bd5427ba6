"""SRANDMEMBER, HRANDFIELD, ZRANDMEMBER with a negative count: a short command, a long reply."""

import logging

import pytest

from holdfast.commands.args import MOST_REPEATED
from tests.harness import encode_command
from tests.harness.in_process import InProcess, Peer
from tests.server.wire import WireServer

COMMANDS = {
    "SRANDMEMBER s {}": 1,
    "HRANDFIELD h {}": 1,
    "HRANDFIELD h {} WITHVALUES": 2,
    "ZRANDMEMBER z {}": 1,
    "ZRANDMEMBER z {} WITHSCORES": 2,
}
MEMBERS = [b"m%d" % number for number in range(10)]


def fill(peer: Peer, members: list[bytes]) -> None:
    peer.command("SADD", "s", *members)
    peer.command("HSET", "h", *[part for member in members for part in (member, b"1")])
    peer.command("ZADD", "z", *[part for member in members for part in (b"1", member)])


def random_words(peer: Peer, command: str, count: int) -> list[bytes]:
    return peer.command(*command.format(count).split()).split(b"\r\n")[2::2]


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize(("command", "per_element"), COMMANDS.items())
def test_there_is_a_limit_and_it_is_told(command: str, per_element: int, protocol: int) -> None:
    peer = InProcess().peer(protocol)
    most = MOST_REPEATED // per_element
    too_many = command.format(-most - 1).split()
    assert peer.command(*too_many) == b"*0\r\n"  # there is no key
    fill(peer, MEMBERS[:1])
    assert peer.command(*too_many) == b"-ERR a negative count is limited to %d\r\n" % most
    if protocol == 2:
        assert peer.command(*command.format(-most).split()).count(b"m0") == most


@pytest.mark.parametrize("size", [1, 10, 3000])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_element_is_as_likely(command: str, size: int) -> None:
    peer = InProcess().peer()
    members = [b"m%d" % number for number in range(size)]
    fill(peer, members)
    for count in (1, 7, 200, 2000):
        words = random_words(peer, command, -count)
        per_element = COMMANDS[command]
        assert len(words) == per_element * count
        assert set(words[::per_element]) <= set(members)
    if size == 10:
        for member in members:
            assert 100 < words[::per_element].count(member) < 300  # seven standard deviations


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reply_of_one_large_element_many_times_is_not_even_made(
    command: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A terabyte, or half of it."""
    server = WireServer()
    fill(server.peer(), [b"m" * (1 << 20)])
    client = server.connect()
    with caplog.at_level(logging.ERROR):
        client.send(encode_command(*command.format(-MOST_REPEATED // 2).split()))
    assert client.state == "aborted"
    assert client.transport.peak_bytes == 0
    assert caplog.text == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_client_that_may_not_be_sent_so_much_is_closed(command: str) -> None:
    server = WireServer()
    fill(server.peer(), MEMBERS[:1])
    server.set("client-output-buffer-limit", "normal 1000000 0 0")
    client = server.connect()
    client.send(encode_command(*command.format(-999_999_999).split()))
    assert client.state == "aborted"
