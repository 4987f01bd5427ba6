"""The same commands to our server and to the oracle, compared byte for byte."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.harness.processes import HoldfastServer, RedisServer
from tests.harness.rawclient import Argument, RawClient


@dataclass
class Pair:
    """A connection to each of the two servers, in the same state."""

    ours: RawClient
    oracle: RawClient
    protocol: int

    def send(self, data: bytes) -> None:
        """Send bytes to both, unchanged."""
        self.ours.send(data)
        self.oracle.send(data)

    def same(self, *args: Argument) -> bytes:
        """Send a command to both. Returns the reply, which must be the same."""
        self.ours.send_command(*args)
        self.oracle.send_command(*args)
        return self.same_reply(args)

    def play(self, scenario: str) -> None:
        """`same` for each line, split into words as a shell would."""
        for line in scenario.strip().splitlines():
            self.same(*shlex.split(line))

    def same_reply(self, after: object = "what was sent") -> bytes:
        """The next reply, which must be the same from both."""
        ours, oracle = self.ours.read_reply(), self.oracle.read_reply()
        assert ours == oracle, f"RESP{self.protocol}: ours == redis-server's after {after}"
        return oracle


@contextmanager
def open_pair(server: HoldfastServer, oracle: RedisServer, protocol: int) -> Iterator[Pair]:
    """New connections to both servers, which are emptied. Each Hypothesis example opens its own."""
    with RawClient.connect(server.port) as ours, RawClient.connect(oracle.port) as theirs:
        for client in (ours, theirs):
            assert client.command("FLUSHALL") == b"+OK\r\n"
            if protocol == 3:
                # its reply has a different id each time
                assert client.command("HELLO", 3)[:1] == b"%"
        yield Pair(ours, theirs, protocol)
