"""Nothing a client sends may raise out of its connection: the server lives on and answers.

Bytes that are nonsense, and commands that are nearly right, at both protocols.
"""

import random
import socket
from collections.abc import Callable

import pytest

from holdfast import all_commands as all_commands
from holdfast.commands.table import TABLE, Command
from tests.harness import HoldfastServer, RawClient, encode_command

# These would end the server, block all clients, or concern the machine and not the protocol.
LEFT_OUT = {"shutdown", "debug", "client|pause"}
WORDS = (
    b"",
    b"0",
    b"-1",
    b"1",
    b"16",
    b"3.5",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"99999999999999999999",
    b"nan",
    b"inf",
    b"0.01",
    b"*",
    b"[a-",
    b"\\",
    b"\x00\xff\r\n",
    b"a" * 300,
    *b"k1 k2 k3 list default NX XX GT LT EX PX KEEPTTL GET COUNT MATCH TYPE ID ON OFF YES NO "
    b"LEFT RIGHT BEFORE AFTER AUTH SETNAME WITHVALUES FILTERBY LEN IDX RANK MAXLEN LIMIT".split(),
)


def leaves(entry: Command) -> list[Command]:
    if entry.name in LEFT_OUT:
        return []
    return [leaf for sub in entry.subcommands.values() for leaf in leaves(sub)] or [entry]


COMMANDS = [leaf for entry in TABLE.values() for leaf in leaves(entry)]


def random_command(rng: random.Random) -> bytes:
    """Mostly with a number of arguments that gets it past the first check."""
    command = rng.choice(COMMANDS)
    name = command.name.encode().split(b"|")
    missing = max(0, abs(command.arity) - len(name))
    count = missing + (rng.randint(0, 3) if command.arity < 0 else 0)
    if rng.random() < 0.1:
        count = rng.randint(0, 6)
    return encode_command(*name, *rng.choices(WORDS, k=count))


def random_bytes(rng: random.Random) -> bytes:
    """Noise, or a pipeline of commands with a few bytes changed, missing or repeated."""
    if rng.random() < 0.3:
        return rng.randbytes(rng.randint(1, 200))
    data = bytearray(b"".join(random_command(rng) for _ in range(rng.randint(1, 5))))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        what = rng.randrange(3)
        if what == 0:
            data[at] = rng.choice(b"*$+-:~%>|_,#!=(\r\n\0 19") if rng.random() < 0.7 else 255
        elif what == 1:
            del data[at : at + rng.randint(1, 5)]
        else:
            data[at:at] = data[at : at + rng.randint(1, 20)]
        if not data:
            break
    return bytes(data)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("what", [random_bytes, random_command])
def test_the_server_survives_whatever_is_sent(
    start_server: Callable[..., HoldfastServer],
    rng: random.Random,
    what: Callable[[random.Random], bytes],
    protocol: int,
) -> None:
    server = start_server("--appendfsync", "no", "--blocking-max-waiters-per-key", "5")
    for _ in range(120):
        with RawClient.connect(server.port) as client:
            if protocol == 3:
                client.command("HELLO", 3)
            try:
                client.send(b"".join(what(rng) for _ in range(20)))
                if rng.random() < 0.5:
                    client._sock.shutdown(socket.SHUT_WR)
                    client.read_until_closed()
            except (BrokenPipeError, ConnectionResetError):
                pass  # it was hung up on, as it deserved
    with RawClient.connect(server.port) as client:
        client.send_command("CONFIG", "SET", "requirepass", "")
        client.send_command("AUTH", "default", "x")
        client.send_command("ECHO", "still here")
        replies = client.read_replies(3)
    assert replies[-1] == b"$10\r\nstill here\r\n", replies
    assert "Traceback" not in server.stderr, server.stderr[-4000:]
    assert server.running
