"""The clients of the soak: their commands, and a ledger of the data that the server must hold.

Each client has its own keys, so it knows their content exactly. Only the queue `jobs` belongs to
all clients. When the server is killed, the result of the commands without a reply is unknown until
a later reply shows it.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.harness import RawClient, encode_command
from tests.harness.processes import ServerProcess
from tests.harness.rawclient import Argument

KEYS = 1000
COUNTERS = 20
LISTS = 10
LONGEST_LIST = 100
LONGEST_BURST = 20
VALUE_BYTES = 1000  # on average
JOBS = "jobs"
NULLS = (b"$-1\r\n", b"*-1\r\n")


class WrongDataError(Exception):
    """The data of the server differs from the acknowledged writes."""


@dataclass
class Bounds:
    """The bounds of a number. It is known exactly if low == high."""

    low: int = 0
    high: int = 0

    def check(self, number: int, what: str) -> None:
        if not self.low <= number <= self.high:
            raise WrongDataError(f"{what} is {number}, and should be {self.low} to {self.high}")

    def change(self, reply: bytes, by: int, what: str) -> None:
        """Check and note the reply to a command that changed the number and returned it."""
        number = int(reply[1:])
        self.check(number - by, f"before one more, {what}")
        self.low = self.high = number


@dataclass
class Queue:
    """The common ledger of all clients about the queue `jobs`."""

    length: Bounds = field(default_factory=Bounds)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, low: int, high: int) -> None:
        with self.lock:
            self.length.low += low
            self.length.high += high


@dataclass
class Step:
    """A command, with a function for its reply and one for the case that no reply comes."""

    argv: tuple[Argument, ...]
    answered: Callable[[bytes], None]
    unknown: Callable[[], None] = lambda: None


def value(number: int) -> bytes:
    """The value with this number. The ledger holds numbers, so it is smaller than the data."""
    return (b"%d:" % number).ljust(16 + number % (2 * VALUE_BYTES), b".")


def bulk(number: int | None) -> bytes:
    if number is None:
        return NULLS[0]
    data = value(number)
    return b"$%d\r\n%s\r\n" % (len(data), data)


class Client(threading.Thread):
    def __init__(self, index: int, server: ServerProcess, queue: Queue, seed: int) -> None:
        super().__init__(name=f"client {index}", daemon=True)
        self._prefix = f"c{index}"
        self._server = server
        self._queue = queue
        self._rng = random.Random(f"{seed}/{index}")
        self._ending = threading.Event()
        self._strings: dict[str, set[int | None]] = {}
        self._counters = [Bounds() for _ in range(COUNTERS)]
        self._lists = [Bounds() for _ in range(LISTS)]
        self.commands: Counter[str] = Counter()
        self.problem: Exception | None = None
        self._kinds: list[tuple[Callable[[], Step], int]] = [
            (self._set, 25),
            (self._get, 25),
            (self._delete, 5),
            (self._expiring, 5),
            (self._increment, 15),
            (self._push_or_pop, 20),
            (self._range, 3),
            (self._add_job, 5),
            (self._take_job, 5),
        ]

    def stop(self) -> None:
        self._ending.set()

    def run(self) -> None:
        try:
            while not self._ending.is_set():
                try:
                    self._converse()
                except OSError:  # the server was killed; it will restart on another port
                    self._ending.wait(0.05)
        except Exception as error:  # noqa: BLE001 - any end but `stop` is a finding
            self.problem = error

    def _converse(self) -> None:
        with RawClient.connect(self._server.port, timeout_s=60) as client:
            makers, weights = zip(*self._kinds, strict=True)
            while not self._ending.is_set():
                makes = self._rng.choices(makers, weights, k=self._rng.randint(1, LONGEST_BURST))
                steps = [make() for make in makes]
                try:
                    client.send(b"".join(encode_command(*step.argv) for step in steps))
                    self._read(client, steps)
                finally:
                    for step in steps:  # only steps without a reply remain
                        step.unknown()

    def _read(self, client: RawClient, steps: list[Step]) -> None:
        while steps:
            try:
                reply = client.read_reply()
            except AssertionError as error:
                if self._server.running and "closed" not in str(error):
                    raise
                raise ConnectionError from error
            step = steps.pop(0)
            self.commands[str(step.argv[0])] += 1
            if reply[:1] == b"-":
                raise WrongDataError(f"{step.argv[0]!r} was answered {reply!r}")
            step.answered(reply)

    def verify(self, client: RawClient) -> None:
        """Check all data of this client at the end."""
        for key in self._strings:
            self._got(key, client.command("GET", key))
        for index, counter in enumerate(self._counters):
            key = f"{self._prefix}:n{index}"
            counter.change(client.command("INCR", key), 1, key)
        for index, length in enumerate(self._lists):
            key = f"{self._prefix}:l{index}"
            length.check(int(client.command("LLEN", key)[1:]), f"the length of {key}")

    # -- strings ------------------------------------------------------------------------------

    def _key(self) -> str:
        return f"{self._prefix}:{self._rng.randrange(KEYS)}"

    def _write(self, key: str, number: int | None, *argv: Argument) -> Step:
        def answered(reply: bytes) -> None:
            self._strings[key] = {number}

        def unknown() -> None:
            self._strings.setdefault(key, {None}).add(number)

        return Step(argv, answered, unknown)

    def _set(self) -> Step:
        key, number = self._key(), self._rng.randrange(1 << 40)
        return self._write(key, number, "SET", key, value(number))

    def _delete(self) -> Step:
        key = self._key()
        return self._write(key, None, "DEL", key)

    def _get(self) -> Step:
        key = self._key()
        return Step(("GET", key), lambda reply: self._got(key, reply))

    def _got(self, key: str, reply: bytes) -> None:
        possible = self._strings.get(key, {None})
        for number in possible:
            if reply == bulk(number):
                self._strings[key] = {number}
                return
        raise WrongDataError(f"{key} is {reply[:60]!r}, and should be one of {possible}")

    def _expiring(self) -> Step:
        key = f"{self._prefix}:t{self._rng.randrange(KEYS)}"
        lifetime_ms = self._rng.randint(1, 2000)
        return Step(("SET", key, value(lifetime_ms), "PX", lifetime_ms), lambda reply: None)

    # -- numbers ------------------------------------------------------------------------------

    def _increment(self) -> Step:
        index = self._rng.randrange(COUNTERS)
        counter, key = self._counters[index], f"{self._prefix}:n{index}"

        def unknown() -> None:
            counter.high += 1

        return Step(("INCR", key), lambda reply: counter.change(reply, 1, key), unknown)

    def _push_or_pop(self) -> Step:
        index = self._rng.randrange(LISTS)
        length, key = self._lists[index], f"{self._prefix}:l{index}"
        side = self._rng.choice("LR")

        def grown() -> None:
            length.high += 1

        def popped(reply: bytes) -> None:
            if reply in NULLS:
                length.check(0, f"the length of {key}, as a pop found it,")
                length.low = length.high = 0
            else:
                length.low, length.high = max(length.low - 1, 0), length.high - 1

        def shrunk() -> None:
            length.low = max(length.low - 1, 0)

        if self._rng.random() * LONGEST_LIST > length.high:
            argv = (f"{side}PUSH", key, value(self._rng.randrange(1 << 40)))
            return Step(argv, lambda reply: length.change(reply, 1, f"the length of {key}"), grown)
        return Step((f"{side}POP", key), popped, shrunk)

    def _range(self) -> Step:
        key = f"{self._prefix}:l{self._rng.randrange(LISTS)}"
        return Step(("LRANGE", key, 0, 9), lambda reply: None)

    # -- the common queue ---------------------------------------------------------------------

    def _add_job(self) -> Step:
        queue = self._queue
        return Step(
            ("RPUSH", JOBS, value(self._rng.randrange(1 << 40))),
            lambda reply: queue.add(1, 1),
            lambda: queue.add(0, 1),
        )

    def _take_job(self) -> Step:
        queue = self._queue

        def taken(reply: bytes) -> None:
            if reply not in NULLS:
                queue.add(-1, -1)

        return Step(("BLPOP", JOBS, "0.01"), taken, lambda: queue.add(-1, 0))
