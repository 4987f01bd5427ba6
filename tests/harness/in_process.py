"""An engine without socket and event loop, with a clock that the test moves, and peers that talk to
it.

A turn ends when a peer reads its replies, so a test decides which commands share a turn.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns

from holdfast import all_commands as all_commands
from holdfast.clock import ManualClock
from holdfast.server.config.config import Config
from holdfast.server.core.engine import Engine
from holdfast.server.sessions.session import Session
from holdfast.store.store import MemoryStore, Store
from tests.harness.rawclient import Argument


def _argv(args: Sequence[Argument]) -> list[bytes]:
    return [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]


class Peer:
    """A session, and the replies that it got."""

    output_bytes = 0

    def __init__(self, engine: Engine, protocol: int = 2) -> None:
        self._engine = engine
        self._delivered: list[bytes] = []
        self.session = Session(engine, self, "peer:0", "peer:0")
        self.session.use_protocol(protocol)
        engine.connected(self.session)

    def send(self, *args: Argument) -> None:
        self.pipeline(args)

    def pipeline(self, *commands: Sequence[Argument]) -> None:
        """Send commands that arrive together."""
        self._engine.receive(self.session, [_argv(args) for args in commands])

    def replies(self) -> list[bytes]:
        """End the turn. Returns the replies since the last call."""
        self._engine.turn.end()
        replies, self._delivered = self._delivered, []
        return replies

    def command(self, *args: Argument) -> bytes:
        self.send(*args)
        (reply,) = self.replies()
        return reply

    def transaction(self, *commands: Sequence[Argument]) -> bytes:
        """Run commands in MULTI. Returns EXEC's reply."""
        self.pipeline(("MULTI",), *commands, ("EXEC",))
        return self.replies()[-1]

    @property
    def is_waiting(self) -> bool:
        return self.session.waiter is not None

    def leave(self) -> None:
        self._engine.disconnected(self.session)

    # -- as the session sees it ---------------------------------------------------------------

    def deliver(self, replies: list[bytes]) -> None:
        self._delivered += replies

    def close(self) -> None:
        self.leave()


class InProcess:
    """An engine, its clock, and any number of peers."""

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        store: Store | None = None,
        stopwatch_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self.clock = ManualClock()
        self.engine = Engine(
            store or MemoryStore(), Config(config), self.clock, random.Random(1), stopwatch_ns
        )

    def peer(self, protocol: int = 2) -> Peer:
        return Peer(self.engine, protocol)

    def blocked(self, *args: Argument) -> Peer:
        """A peer that is blocked in this command."""
        peer = self.peer()
        peer.send(*args)
        assert peer.is_waiting, f"{args} did not block: {peer.replies()!r}"
        return peer

    def set(self, name: str, value: str | int) -> None:
        """Set a parameter by CONFIG SET."""
        self.engine.config.set_many([(name.encode(), str(value).encode())])

    @property
    def awaited(self) -> list[bytes]:
        """The keys for which clients wait, in all databases."""
        return [name for database in self.engine.keyspace.databases for name in database.awaited]

    def assert_nothing_left(self) -> None:
        """Assert that no client waits, and that earlier waits left nothing behind."""
        assert len(self.engine.blocking.waiters) == 0
        assert self.awaited == []
        assert self.clock.pending_timers == 0
