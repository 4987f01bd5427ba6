"""The disk fails: what replicas are sent is the stream as the offsets count it, byte for byte."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.server.primary.snapshot_process import SnapshotProcess
from holdfast.store.store import FileStore
from tests.harness.in_process import InProcess

# It replaces a method of the store.
pytestmark = pytest.mark.source_only


class Scene:
    """A primary, a client, and a replica that has followed from the beginning."""

    def __init__(self, folder: Path) -> None:
        path = folder / "x.db"
        self.store = FileStore(path)
        self.place = InProcess({"appendfsync": "no"}, self.store)
        engine = self.place.engine
        self.primary = primary = engine.primary
        primary.open_snapshots = lambda: SnapshotProcess(primary, path, engine.config)
        primary.begin()
        self.client, self._replica = self.place.peer(), self.place.peer()
        self._replica.send("PSYNC", primary.replication_id, 1)
        assert self._replica.replies() == [b"+CONTINUE %b\r\n" % primary.replication_id]
        self._received = b""

    @property
    def received(self) -> bytes:
        self._received += b"".join(self._replica.replies())
        return self._received

    @property
    def stream(self) -> bytes:
        assert self.primary.backlog is not None
        return self.primary.backlog.since(1)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.store.close()


@contextmanager
def full_disk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail() -> int:
        raise StorageError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(scene.store, "commit", fail)
        yield
    scene.place.engine.storage_recovered()


def ping(scene: Scene) -> None:
    scene.place.clock.advance(scene.place.engine.config.repl_ping_replica_period + 1)


def save(scene: Scene) -> None:
    """It commits in the middle of a turn."""
    scene.client.pipeline(("SET", "saved", "1"), ("SAVE",))


@pytest.mark.parametrize("before", [ping, save])
def test_what_was_in_the_stream_before_a_batch_failed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, before: Callable[[Scene], None]
) -> None:
    scene.client.command("SET", "first", "1")
    before(scene)
    with full_disk(scene, monkeypatch):
        scene.client.send("SET", "lost", "1")
        assert scene.client.replies()[-1].startswith(b"-MISCONF")
    scene.client.command("SET", "last", "1")
    assert scene.received == scene.stream
    assert b"lost" not in scene.stream
    for name in (b"first", b"last"):
        assert name in scene.stream


def test_a_replica_does_not_get_what_may_not_be_on_disk(scene: Scene) -> None:
    """After a failed sync the server ends. Another one may have become the primary before it
    starts again."""
    scene.client.send("SET", "unknown", "1")
    scene.place.engine.turn.fail(StorageError("cannot sync the journal"), is_fatal=True)
    assert not scene.primary.replicas
    assert b"unknown" not in scene.received
