"""A connection, callers and a server, all at random, in memory and on a clock that stands still.

In every order of events: every call ends once, with its own reply or with a true error. A command
that an error calls unsent has never reached the server, and none has reached it twice.
"""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client.errors import ClientError, ClosedError, QueueFullError
from holdfast.client.protocol.connection_state import State
from holdfast.client.topology.single import send_many, send_one
from holdfast.client.transport.connection import Connection
from holdfast.client.transport.options import Backoff, ClientOptions
from holdfast.client.transport.silence import SilenceJudge
from tests.client.fakes import FakeServer, FakeTransport, Rig, turns

STEPS = 250


class World:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.is_replaceable = (
            rng.random() < 0.2
        )  # a connection that ends when it is lost, but no client
        self.is_closing = False
        self.rig = Rig(
            reconnect=not self.is_replaceable,
            max_requests=40,
            max_bytes=4000,
            close_grace_s=1,
            connect_timeout_s=1,
            silence_timeout_s=2,
            backoff=Backoff(immediate=2, first_s=0.5, cap_s=2, jitter=0),
        )
        self.rig.connection.is_replaceable = self.is_replaceable
        self.server = self.rig.server
        self.mute: set[FakeTransport] = set()  # nothing comes over these any more
        connection = self.rig.connection
        self.silence = SilenceJudge(connection.options, self.probe, lambda: [connection])
        self.silence.watch(connection)
        self.calls: dict[asyncio.Future[Any], list[bytes]] = {}
        self.serial = 0
        self.received: Counter[bytes] = Counter()
        self.unsent: set[bytes] = set()  # so an error said
        self.unanswered: dict[FakeTransport, deque[bytes]] = {}
        self.outcomes: Counter[str] = Counter()

    def probe(self, options: ClientOptions) -> Connection:
        self.outcomes["probed"] += 1
        return Connection(options, dial=self.server.dial, clock=self.rig.clock)

    # -- callers ------------------------------------------------------------------------------

    def token(self) -> bytes:
        self.serial += 1
        return b"%d:%b" % (self.serial, b"x" * self.rng.choice([0, 5, 300]))

    def call(self) -> None:
        tokens = [self.token() for _ in range(self.rng.choice([1, 1, 1, 4]))]
        if len(tokens) > 1:
            commands: list[Any] = [("ECHO", token) for token in tokens]
            patience_s = self.rng.choice([None, 0.5, 3])
            self.calls[send_many(self.rig.connection, commands, patience_s)] = tokens
        elif self.rng.random() < 0.5:
            patience_s = self.rng.choice([1, 2])
            future = send_one(self.rig.connection, ("ECHO", tokens[0]), patience_s)
            # A rejection comes a turn of the loop later: see `test_retries`.
            assert not future.done()
            self.calls[future] = tokens
        else:
            self.submit(tokens)

    def submit(self, tokens: list[bytes]) -> None:
        try:
            future = self.rig.submit("ECHO", tokens[0].decode(), timeout_s=2)
        except ClientError as error:
            if error.may_have_executed or self.is_untrue(error):
                raise
            self.unsent.update(tokens)
            self.outcomes["full" if isinstance(error, QueueFullError) else "rejected"] += 1
        else:
            self.calls[future] = tokens

    def is_untrue(self, error: ClientError) -> bool:
        """Whether it says that the client is closed when only a connection is."""
        return self.is_replaceable and not self.is_closing and isinstance(error, ClosedError)

    def cancel(self) -> None:
        if self.calls:
            self.rng.choice(list(self.calls)).cancel()

    def look(self) -> None:
        """Check the calls that have ended."""
        for future in [future for future in self.calls if future.done()]:
            tokens = self.calls.pop(future)
            if future.cancelled():
                self.outcomes["cancelled"] += 1
                continue
            error = future.exception()
            if error is not None:
                assert isinstance(error, ClientError)
                assert not self.is_untrue(error)
                self.outcomes[type(error).__name__] += 1
                self.outcomes["given up"] += "answers others" in str(error)
                if not error.may_have_executed:
                    self.unsent.update(tokens)
                continue
            result = future.result()
            replies = result if isinstance(result, list) else [result]
            assert len(replies) == len(tokens)
            for token, reply in zip(tokens, replies, strict=True):
                if isinstance(reply, ClientError):
                    assert reply.may_have_executed
                    assert not self.is_untrue(reply)
                    self.outcomes["slot failed"] += 1
                else:
                    assert reply == token, "somebody else's reply"
                    self.outcomes["ok"] += 1

    # -- the server ---------------------------------------------------------------------------

    def read(self) -> None:
        for link in self.server.links:
            waiting = self.unanswered.setdefault(link, deque())
            for command in link.commands():
                if command[0] == b"ECHO":  # and not a handshake
                    self.received[command[1]] += 1
                    waiting.append(command[1])
                elif command[0] == b"PING":  # of a probe
                    waiting.append(b"PONG")

    def answer(self) -> None:
        self.read()
        links = [link for link in self.server.links[-3:] if link not in self.mute]
        if not links:
            return
        link = self.rng.choice(links)
        waiting = self.unanswered.get(link, deque())
        data = b""
        for _ in range(min(len(waiting), self.rng.randint(1, 8))):
            if self.rng.random() < 0.1:
                data += b">2\r\n+invalidate\r\n*1\r\n+k\r\n"
            token = waiting.popleft()
            data += b"$%d\r\n%b\r\n" % (len(token), token)
        while data:
            cut = self.rng.randint(1, len(data))
            link.say(data[:cut])
            data = data[cut:]

    def cut(self) -> None:
        if self.server.links:
            self.read()
            protocol = self.server.link.protocol
            ends: list[Callable[[], object]] = [
                lambda: protocol.connection_lost(ConnectionResetError("cut")),
                protocol.eof_received,
                lambda: protocol.data_received(b"?\r\n"),
            ]
            self.rng.choice(ends)()

    def fall_silent(self) -> None:
        """A stopped server, or a black hole; at times it answers again, late."""
        if self.rng.random() < 0.3:
            self.mute.clear()
        else:
            self.mute.update(self.server.links)

    def pause(self) -> None:
        self.rng.choice(
            [self.server.link.protocol.pause_writing, self.server.link.protocol.resume_writing]
        )()

    def change(self) -> None:
        self.server.refusing = self.rng.random() < 0.3
        self.server.hello = None if self.rng.random() < 0.2 else FakeServer().hello

    def advance(self) -> None:
        self.rig.clock.advance(self.rng.choice([0.1, 0.5, 1.5]))

    # -- all together -------------------------------------------------------------------------

    async def run(self) -> None:
        await self.rig.open()
        likely: list[tuple[Callable[[], None], int]] = [
            *((self.call, 40), (self.answer, 25), (self.cancel, 6), (self.advance, 6)),
            *((self.cut, 3), (self.pause, 4), (self.change, 3), (self.fall_silent, 2)),
        ]
        steps, weights = zip(*likely, strict=True)
        for _ in range(STEPS):
            self.rng.choices(steps, weights)[0]()
            await turns(self.rng.choice([0, 0, 1, 3]))
            self.look()
        await self.end()

    async def end(self) -> None:
        self.is_closing = True
        self.silence.stop()
        closing = asyncio.ensure_future(self.rig.connection.close())
        await turns()
        self.rig.clock.advance(1)
        await closing
        await turns()
        self.read()
        self.look()
        assert not self.calls, "somebody is still waiting"
        assert self.rig.is_in(State.CLOSED)
        assert self.rig.connection.pending == (0, 0)
        assert self.rig.clock.pending_timers == 0
        assert not [token for token, count in self.received.items() if count > 1], "sent twice"
        assert not self.unsent & set(self.received), "called unsent, but it was sent"


def test_every_call_ends_once_and_truthfully() -> None:
    """The same worlds each time; `make faults` looks for new ones."""
    outcomes: Counter[str] = Counter()
    for seed in range(120):
        world = World(random.Random(seed))
        asyncio.run(world.run())
        outcomes += world.outcomes
    print(outcomes)  # noqa: T201 - shown when it fails
    expected = {"ok", "cancelled", "rejected", "full", "slot failed", "probed", "given up"}
    expected |= {
        "ConnectionLostError",
        "BadReplyError",
        "RequestTimeoutError",
        "NotConnectedError",
        "ClosedError",
    }
    assert expected <= set(outcomes), "the test did not go everywhere"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_call_ends_once_and_truthfully_for_longer(rng: random.Random) -> None:
    for _ in range(2000):
        asyncio.run(World(random.Random(rng.getrandbits(32))).run())
