"""Runs the same commands on both servers and compares their replies and their data.

Replies are compared as bytes, line by line. Three kinds of commands cannot answer the same twice
(times, unordered collections, facts about the process); `differences.py` has the differences that
docs/compatibility.md allows. Every other difference is a failure.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from tests.harness import HoldfastServer, RawClient, RedisServer, encode_command, wait_until
from tests.wire.differences import is_allowed
from tests.wire.generators import CONTAINERS, finish
from tests.wire.grammar import EXPIRE_NOW, KEYS, SEED, Argv

Step = tuple[int, Sequence[Argv]]  # the client, and the commands of one write

TIMES = frozenset(
    {"ttl", "pttl", "expiretime", "pexpiretime", "object|idletime"}
    | {"xpending", "xinfo|consumers", "xinfo|stream"}
)
FOR_EVER = b"0"
TOLERANCE = 20_000  # milliseconds; also for seconds, where commands use times that far apart
UNORDERED = frozenset(
    {"keys", "scan", "hgetall", "hkeys", "hvals", "hscan", "hrandfield"}
    | {"zscan", "zrandmember"}
    | {"smembers", "sinter", "sunion", "sdiff", "sscan", "spop", "srandmember"}
)
# Of these the kind of reply is compared.
OPAQUE = frozenset(
    {"hello", "time", "lastsave", "info", "dump"}
    | {"dbsize"}  # expired keys count until a command reads them
    | {"client|id", "client|list", "client|info", "slowlog|get", "slowlog|len"}
)


def name_of(argv: Argv) -> str:
    """`name`, or `name|subcommand` for commands that have any."""
    words = [arg.decode("latin-1").lower() for arg in argv[:2]]
    return "|".join(words) if words[0] in CONTAINERS else words[0]


def explain(name: str, ours: bytes, theirs: bytes) -> str | None:
    """None if these replies match; else a description of the difference."""
    if ours == theirs:
        return None
    if name in OPAQUE and ours[:1] == theirs[:1] != b"-":
        return None
    our_lines, their_lines = ours.split(b"\r\n"), theirs.split(b"\r\n")
    if name in UNORDERED:
        our_lines.sort()
        their_lines.sort()
    if len(our_lines) == len(their_lines) and all(
        one == other or (name in TIMES and _are_near(one, other)) or is_allowed(name, one, other)
        for one, other in zip(our_lines, their_lines, strict=True)
    ):
        return None
    return _shown(ours, theirs)


def explain_exec(queued: Sequence[Argv], ours: bytes, theirs: bytes) -> str | None:
    """The same for the replies of a transaction, each by its command."""
    our_parts, their_parts = split_array(ours), split_array(theirs)
    if not len(our_parts) == len(their_parts) == len(queued):
        return explain("exec", ours, theirs)
    wrong = list(map(explain, map(name_of, queued), our_parts, their_parts))
    return next((f"{queued[at]}:\n{words}" for at, words in enumerate(wrong) if words), None)


def split_array(reply: bytes) -> list[bytes]:
    """The elements of an array, as bytes; none if it is something else."""
    if reply[:1] != b"*" or reply[:2] == b"*-":
        return []
    at = reply.index(b"\r\n") + 2
    parts = []
    while at < len(reply):
        end = _end_of_value(reply, at)
        parts.append(reply[at:end])
        at = end
    return parts


def _end_of_value(reply: bytes, at: int) -> int:
    kind, end = reply[at : at + 1], reply.index(b"\r\n", at) + 2
    if kind not in b"$=!*~>%" or reply[at + 1 : at + 2] == b"-":
        return end
    count = int(reply[at + 1 : end])
    if kind in b"$=!":
        return end + count + 2
    for _ in range(2 * count if kind == b"%" else count):
        end = _end_of_value(reply, end)
    return end


def _shown(ours: bytes, theirs: bytes) -> str:
    """Both, from shortly before the place where they differ."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    start = max(next((at for at, (one, other) in pairs if one != other), 0) - 40, 0)
    return f"ours:   {ours[start : start + 300]!r}\ntheirs: {theirs[start : start + 300]!r}"


def _are_near(one: bytes, other: bytes) -> bool:
    numbers = [re.fullmatch(rb":(\d+)", line) for line in (one, other)]
    first, second = (int(number[1]) if number else None for number in numbers)
    return first is not None and second is not None and abs(first - second) <= TOLERANCE


@dataclass
class Client:
    """A connection to each server, and the commands that are not answered yet."""

    ours: RawClient
    theirs: RawClient
    protocol: int
    number: int
    ids: tuple[bytes, bytes] = (b"", b"")
    unanswered: list[Argv] = field(default_factory=list)
    queued: list[Argv] = field(default_factory=list)  # since MULTI

    def send(self, batch: Sequence[Argv]) -> None:
        data = b"".join(encode_command(*argv) for argv in batch)
        self.ours.send(data)
        self.theirs.send(data)
        self.unanswered += batch

    def read(self) -> None:
        """Read one reply from both, and compare."""
        ours, theirs = self.ours.read_reply(), self.theirs.read_reply()
        argv = self.unanswered.pop(0)
        name = name_of(argv)
        if name == "exec":
            wrong = explain_exec(self.queued, ours, theirs)
        else:
            wrong = explain(name, ours, theirs)
        assert wrong is None, f"RESP{self.protocol}, client {self.number}, {argv}:\n{wrong}"
        if theirs == b"+QUEUED\r\n":
            self.queued.append(argv)
        elif name in ("exec", "discard", "reset"):
            self.queued = []

    @property
    def is_answered(self) -> bool:
        """Both servers have said something that was not read yet."""
        return not (self.ours.is_quiet() or self.theirs.is_quiet())


class Servers:
    """Both servers, and a connection to each that looks at them without taking part."""

    def __init__(self, ours: HoldfastServer, theirs: RedisServer) -> None:
        self.ours = ours
        self.theirs = theirs
        self.inspectors = (ours.client(), theirs.client())
        self._expire_when_touched()

    def _expire_when_touched(self) -> None:
        """Expired keys are removed when they are read, not by themselves at an unknown time."""
        for inspector in self.inspectors:
            assert inspector.command("DEBUG", "SET-ACTIVE-EXPIRE", 0) == b"+OK\r\n"

    def crash_and_restart(self) -> None:
        """Crash our server: it must find all acknowledged writes."""
        self.ours.kill()
        self.ours.restart()
        self.inspectors = (self.ours.client(), self.inspectors[1])
        self._expire_when_touched()

    @contextmanager
    def clients(self, protocol: int, count: int) -> Iterator[list[Client]]:
        """New connections to servers that hold nothing but SEED."""
        for inspector in self.inspectors:
            _pipeline(inspector, [(b"FLUSHALL",), *SEED])
        with ExitStack() as stack:
            clients = []
            for number in range(count):
                both = [
                    stack.enter_context(RawClient.connect(server.port))
                    for server in (self.ours, self.theirs)
                ]
                if protocol == 3:
                    for client in both:
                        assert client.command("HELLO", 3)[:1] == b"%"
                ids = tuple(client.command("CLIENT", "ID")[1:-2] for client in both)
                clients.append(Client(both[0], both[1], protocol, number, (ids[0], ids[1])))
            yield clients

    def run(self, protocol: int, steps: Sequence[Step], clients: int = 1) -> None:
        """Send each step to both servers and compare the replies, and the data at the end."""
        number = 0
        # One client's waits end by themselves; several clients must not race with a timeout.
        timeout = b"0.01" if clients == 1 else FOR_EVER
        with self.clients(protocol, clients) as all_clients:
            for who, batch in steps:
                sender = all_clients[who]
                self._release(sender)
                for is_expiry, part in groupby(batch, lambda argv: argv[0] == EXPIRE_NOW):
                    argvs = list(part)
                    if is_expiry:
                        self._expire([name for _, name in argvs])
                        continue
                    finished = [finish(argv, number + n, timeout) for n, argv in enumerate(argvs)]
                    number += len(argvs)
                    if clients == 1:
                        sender.send(finished)
                    else:
                        self._send_among_others(sender, finished)
                    self._settle([sender, *all_clients])
            for client in all_clients:
                self._release(client)
                self._settle(all_clients)
        self.compare_data()

    def _send_among_others(self, sender: Client, batch: Sequence[Argv]) -> None:
        """Commands behind a wait for ever are left out if the client has to wait: when it goes on,
        they take turns with those of the client that woke it, as each server likes."""
        while batch:
            end = next((at for at, argv in enumerate(batch, 1) if FOR_EVER in argv), len(batch))
            sender.send(batch[:end])
            batch = batch[end:]
            if batch:
                self._settle([sender])
                if sender.unanswered:
                    return

    def _settle(self, clients: Iterable[Client]) -> None:
        """Read all replies that there are; clients that both servers let wait may go on waiting."""
        for client in clients:
            while client.unanswered:
                wait_until(
                    partial(self._has_settled, client),
                    f"an answer to {client.unanswered[0]}, or both servers let it wait",
                )
                if not client.is_answered:
                    break
                client.read()

    def _expire(self, names: list[bytes]) -> None:
        """Let these keys expire in database 0, without looking at them afterwards."""
        soon_ms = int(time.time() * 1000) + 2
        argvs = [(b"PEXPIREAT", name, b"%d" % soon_ms) for name in dict.fromkeys(names)]
        ours, theirs = (_pipeline(inspector, argvs) for inspector in self.inspectors)
        assert ours == theirs, names
        wait_until(lambda: time.time() * 1000 > soon_ms + 1, "time passes")

    def _has_settled(self, client: Client) -> bool:
        return client.is_answered or (FOR_EVER in client.unanswered[0] and self._is_waiting(client))

    def _is_waiting(self, client: Client) -> bool:
        """Whether both servers have it blocked, and so have run everything sent before."""
        return (
            all(
                re.search(rb" flags=\w*b", inspector.command("CLIENT", "LIST", "ID", id_))
                for inspector, id_ in zip(self.inspectors, client.ids, strict=True)
            )
            and client.ours.is_quiet()
            and client.theirs.is_quiet()
        )

    def _release(self, client: Client) -> None:
        """End every wait of a client, so that all it was sent is answered."""
        while client.unanswered:
            for inspector, id_ in zip(self.inspectors, client.ids, strict=True):
                inspector.command("CLIENT", "UNBLOCK", id_)
            self._settle([client])

    def compare_data(self) -> None:
        """All keys of all databases: name, type, encoding, value, time to live."""
        ours, theirs = (list(_data(inspector)) for inspector in self.inspectors)
        for (argv, one), (other_argv, other) in zip(ours, theirs, strict=False):
            assert argv == other_argv, f"the same keys in the same databases: {argv} {other_argv}"
            wrong = explain(name_of(argv), one, other)
            assert wrong is None, f"afterwards, {argv}:\n{wrong}"
        assert len(ours) == len(theirs), "as many keys"


def _pipeline(client: RawClient, argvs: Sequence[Argv]) -> list[bytes]:
    client.send(b"".join(encode_command(*argv) for argv in argvs))
    return client.read_replies(len(argvs))


# How to ask for all of a value.
WHOLE: dict[bytes, Argv] = {
    b"+string\r\n": (b"GET", b"<name>"),
    b"+list\r\n": (b"LRANGE", b"<name>", b"0", b"-1"),
    b"+hash\r\n": (b"HGETALL", b"<name>"),
    b"+set\r\n": (b"SMEMBERS", b"<name>"),
    b"+zset\r\n": (b"ZRANGE", b"<name>", b"0", b"-1", b"WITHSCORES"),
    b"+stream\r\n": (b"XINFO", b"STREAM", b"<name>", b"FULL", b"COUNT", b"0"),
}


def _data(client: RawClient) -> Iterator[tuple[Argv, bytes]]:
    """Questions about everything a server holds, and its answers."""
    sizes = [((b"SELECT", b"%d" % db), (b"EXISTS", *KEYS), (b"DBSIZE",)) for db in range(16)]
    answers = _pipeline(client, [argv for three in sizes for argv in three])
    for db, size in enumerate(answers[2::3]):
        if size == b":0\r\n":
            continue
        _, reply = _pipeline(client, [(b"SELECT", b"%d" % db), (b"KEYS", b"*")])
        names = sorted(part[part.index(b"\r\n") + 2 : -2] for part in split_array(reply))
        yield (b"SIZE", b"%d" % db, *names), size
        for name in names:
            kind = client.command("TYPE", name)
            questions: list[Argv] = [
                (b"TYPE", name),
                tuple(arg.replace(b"<name>", name) for arg in WHOLE[kind]),
                (b"PEXPIRETIME", name),
                (b"OBJECT", b"ENCODING", name),
            ]
            yield from zip(questions, _pipeline(client, questions), strict=True)
    client.command("SELECT", 0)
