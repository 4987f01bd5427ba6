"""A server on a file whose collections are cold and large, and one turn after the other."""

from collections.abc import Sequence
from pathlib import Path

from holdfast.server.core.loading import LOAD_NS
from holdfast.server.sessions.session import IS_LOADING
from holdfast.store.file.tables import SLICE_ROWS
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess, Peer
from tests.harness.rawclient import Argument
from tests.server.wire import Stopwatch, WireServer

Command = Sequence[Argument]

COUNT = 6 * SLICE_ROWS
STREAM_COUNT = 3 * SLICE_ROWS


def fill(kind: str, name: str, count: int = COUNT) -> list[Command]:
    """Commands that fill a collection, in an order that is not that of its rows."""
    numbers = [number * 7919 % count for number in range(count)]
    if kind == "hash":
        return [("HSET", name, *_flat([(f"f{n}", f"v{n}") for n in numbers]))]
    if kind == "set":
        return [("SADD", name, *[f"m{n}" for n in numbers])]
    if kind == "zset":
        return [("ZADD", name, *_flat([(n * 31 % count, f"m{n}") for n in numbers]))]
    if kind == "list":
        return [("RPUSH", name, *[f"e{n}" for n in numbers])]
    return [("XADD", name, f"1-{n + 1}", "f", f"v{n}") for n in range(STREAM_COUNT)]


def _flat(pairs: list[tuple[object, object]]) -> list[str]:
    return [str(word) for pair in pairs for word in pair]


def write_file(path: Path, *commands: Command) -> None:
    store = FileStore(path)
    peer = InProcess({"appendfsync": "no"}, store).peer()
    for command in commands:
        assert not peer.command(*command).startswith(b"-"), command
    store.close()


class ColdServer(InProcess):
    """Each look at the stopwatch takes as long as the share of all loads, so a turn loads one
    slice."""

    def __init__(self, path: Path, *commands: Command, **config: str) -> None:
        if commands:
            write_file(path, *commands)
        self.store = FileStore(path)
        named = {name.replace("_", "-"): value for name, value in config.items()}
        super().__init__({"appendfsync": "no"} | named, self.store, Stopwatch(LOAD_NS))

    def turn(self) -> bool:
        """One. Whether there is something to do in the next."""
        return self.engine.turn.run_commands()

    def turns_until_answered(self, peer: Peer) -> int:
        count = 0
        while peer.session.load_state == IS_LOADING or peer.session.backlog:
            self.turn()
            count += 1
        return count

    def turn_until_loading(self, peer: Peer) -> None:
        """Until a command of a pipeline waits."""
        while not is_loading(peer):
            assert self.turn()

    def waiting(self, *args: Argument) -> Peer:
        """A peer whose command waits for a load."""
        peer = self.peer()
        peer.send(*args)
        assert is_loading(peer), f"{args} does not wait: {peer.replies()!r}"
        return peer

    def is_hot(self, name: bytes, index: int = 0) -> bool:
        return name in self.engine.keyspace.databases[index].space.keys

    def assert_no_load_left(self) -> None:
        loads = self.engine.keyspace.loads
        assert (len(loads), len(loads.pending)) == (0, 0)
        assert not self.engine.loading.is_busy

    def forget_clean_keys(self) -> None:
        """Forget as many keys as memory may, in any order."""
        self.store.max_bytes = 1
        while self.store.make_room():
            pass
        self.store.max_bytes = 0


class ColdWireServer(WireServer):
    """The same, with connections."""

    def __init__(self, path: Path, *commands: Command) -> None:
        write_file(path, *commands)
        super().__init__(Stopwatch(LOAD_NS), FileStore(path), appendfsync="no")


def is_loading(peer: Peer) -> bool:
    return peer.session.load_state == IS_LOADING
