"""A whole server in one thread: the engine, its turns and its clients, with a loop and workers
that do one thing at a time, when the test says so. The same seed is the same run.
"""

import os
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import hiredis
import pytest

from holdfast import all_commands as all_commands
from holdfast.clock import ManualClock
from holdfast.server.config.config import Config
from holdfast.server.core import turn
from holdfast.server.core.cron import Cron
from holdfast.server.core.engine import Engine
from holdfast.server.sessions.session import Session
from holdfast.store.store import FileStore
from tests.faults.clients import Writer
from tests.faults.disk import Disk
from tests.faults.ledger import Keys, reading
from tests.faults.ledger_types import Argv


class Loop:
    """As much of an event loop as a turn needs."""

    def __init__(self) -> None:
        self.soon: deque[Callable[[], object]] = deque()

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        self.soon.append(lambda: callback(*args))

    call_soon_threadsafe = call_soon


class Worker:
    """Does its jobs when it is told to, in the thread of the test."""

    all: list["Worker"]

    def __init__(self, name: str) -> None:
        self.jobs: deque[tuple[turn.Job, turn.Done]] = deque()
        Worker.all.append(self)

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def submit(self, job: turn.Job, done: turn.Done) -> None:
        self.jobs.append((job, done))

    def work(self) -> None:
        job, done = self.jobs.popleft()
        try:
            job()
        except Exception as error:  # noqa: BLE001 - as the real one does
            done(error)
        else:
            done(None)


class Client:
    """The client end of a session. `on_replies` receives the delivered replies."""

    output_bytes = 0

    def __init__(self, engine: Engine) -> None:
        self.replies: list[Any] = []
        self.session = Session(engine, self, "client:0", "server:0")
        self._engine = engine
        self._reader = hiredis.Reader()
        engine.connected(self.session)

    def deliver(self, replies: list[bytes]) -> None:
        for data in replies:
            self._reader.feed(data)
        while (reply := self._reader.gets(False)) is not False:
            self.replies.append(reply)

    def close(self) -> None: ...

    def send(self, *argvs: Argv) -> None:
        self._engine.receive(self.session, list(argvs))

    def call(self, argv: Argv) -> Any:
        """Where nothing else goes on: the turn ends with it."""
        self.send(argv)
        self._engine.turn.end()
        return self.replies.pop()


class Simulation:
    """A server on a disk. Its files are in `folder`; `patch` is the test's monkeypatch."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        patch: pytest.MonkeyPatch,
        appendfsync: str = "always",
        boot: str = "a-boot",
    ) -> None:
        Worker.all = []
        patch.setattr(turn, "Worker", Worker)
        patch.setattr(os, "fdatasync", disk.fdatasync)
        patch.setattr(os, "pwrite", disk.pwrite)
        self.disk = disk
        self.is_stopped = False
        self.clock = ManualClock()
        self.store = FileStore(folder / "a.db", vfs=disk.name, boot=boot)
        self.engine = Engine(
            self.store,
            Config({"appendfsync": appendfsync, "enable-debug-command": "yes"}),
            self.clock,
        )
        self.fatal: list[Exception] = []
        self.engine.on_fatal = self.fatal.append
        self.loop = Loop()
        self.engine.turn.start(cast(Any, self.loop))
        self.workers = Worker.all
        self.cron = Cron(self.engine)
        self.cron.start()

    def client(self) -> Client:
        return Client(self.engine)

    def run_one(self, rng: random.Random) -> None:
        """One thing of those that are due."""
        due: list[Callable[[], object]] = [worker.work for worker in self.workers if worker.jobs]
        if self.loop.soon:
            due += [self.loop.soon.popleft] * 3
        if not due:
            return
        chosen = rng.choice(due)
        if chosen == self.loop.soon.popleft:
            self.loop.soon.popleft()()
        else:
            chosen()

    def run(self) -> None:
        """Until nothing is left to do."""
        while self.loop.soon or any(worker.jobs for worker in self.workers):
            while self.loop.soon:
                self.loop.soon.popleft()()
            for worker in self.workers:
                if worker.jobs:
                    worker.work()

    def call(self, client: Client, *argv: bytes) -> Any:
        client.send(list(argv))
        self.run()
        return client.replies.pop()

    def stop(self) -> None:
        """As if it had been killed, if it still runs."""
        if not self.is_stopped:
            self.is_stopped = True
            self.store.abandon()


class SimulatedWriter(Writer):
    """A writer that sends to a simulation."""

    beside: ClassVar = [[b"BGSAVE"]]

    def __init__(self, rng: random.Random, number: int) -> None:
        super().__init__(rng, number)
        self._expected: deque[tuple[int, Any]] = deque()  # replies of a unit, and the last one
        self.acknowledged = 0  # index of the state that was acknowledged

    def connect(self, client: Client) -> None:
        self.client = client
        self._expected.clear()

    def send(self) -> None:
        units = [self._next_unit() for _ in range(self._rng.choice([1, 1, 2, 5]))]
        self._expected += [(len(argvs), expected) for argvs, expected in units]
        self.client.send(*(argv for argvs, _ in units for argv in argvs))

    def receive(self) -> None:
        replies = self.client.replies
        while self._expected and len(replies) >= self._expected[0][0]:
            count, expected = self._expected.popleft()
            assert replies[count - 1] == expected
            del replies[:count]
            self.acknowledged += 1

    def find(self, store: FileStore) -> Keys:
        """The content of this writer's keys in a store."""
        found: Keys = {}
        engine = Engine(store, Config({"appendfsync": "no"}), ManualClock())
        engine.turn.start(cast(Any, Loop()))
        client = Client(engine)
        for db in self.databases:
            client.call([b"SELECT", b"%d" % db])
            for name in (*self._inventor.names, self._inventor.counter):
                asking = reading(name)
                try:
                    argv = next(asking)
                    while True:
                        argv = asking.send(client.call(argv))
                except StopIteration as end:
                    if end.value is not None:
                        found[db, name] = end.value
        return found
