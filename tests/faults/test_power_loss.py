"""The power fails at any moment of any write: with `always` no acknowledged write is lost.

In the same runs `everysec` loses the last moments, which shows that the test can tell. Neither
policy ever leaves a broken file or half of a batch. If the files of a killed server are damaged and
lack acknowledged writes, they are refused.
"""

import os
import random
import shutil
from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.server.core import turn
from holdfast.store.file import journal
from holdfast.store.fold import fold, pending_rows
from holdfast.store.store import FileStore
from holdfast.store.values import list_chunks
from tests.faults.clients import difference
from tests.faults.disk import SECTOR, Disk
from tests.faults.simulation import Client, SimulatedWriter, Simulation
from tests.store.consistency import check_counts, check_rows, check_settled

SEEDS = 60
POWER_CUTS = 4  # one after the other, per seed
DAMAGES = 2  # before each failure, to the files of a killed server


def flip_a_bit(path: Path, rng: random.Random) -> None:
    """Of the WAL, anywhere. (In the file itself SQLite has no checksums.)"""
    wal = bytearray(_wal(path).read_bytes())
    if wal:
        wal[rng.randrange(len(wal))] ^= 1 << rng.randrange(8)
    _wal(path).write_bytes(wal)


def zero_some_sectors(path: Path, rng: random.Random) -> None:
    wal = bytearray(_wal(path).read_bytes())
    start = rng.randrange(len(wal) // SECTOR + 1) * SECTOR
    end = min(start + SECTOR * rng.randint(1, 20), len(wal))
    wal[start:end] = bytes(end - start)
    _wal(path).write_bytes(wal)


def cut_the_wal(path: Path, rng: random.Random) -> None:
    os.truncate(_wal(path), rng.randint(0, _wal(path).stat().st_size))


def remove_the_wal(path: Path, rng: random.Random) -> None:
    _wal(path).unlink()


def cut_the_file(path: Path, rng: random.Random) -> None:
    pages = path.stat().st_size // 4096
    os.truncate(path, rng.choice([0, 4096 * rng.randrange(pages), 4096 * max(pages - 1, 0)]))


LOSSES = [flip_a_bit, zero_some_sectors, cut_the_wal, remove_the_wal, cut_the_file]


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


class PowerCuts:
    def __init__(
        self, seed: int, folder: Path, patch: pytest.MonkeyPatch, appendfsync: str
    ) -> None:
        self._rng = random.Random(seed)
        self._folder = folder
        self._patch = patch
        self._appendfsync = appendfsync
        self._writers = [SimulatedWriter(self._rng, number) for number in range(3)]
        self._generation = 0
        self.lost = 0  # acknowledged, and gone
        self.refused = 0  # damaged, and noticed

    @property
    def _here(self) -> Path:
        return self._folder / str(self._generation)

    @property
    def _boot(self) -> str:
        return f"boot-{self._generation}"

    def first_start(self) -> None:
        self._here.mkdir()
        FileStore(self._here / "a.db").close()

    def cycle(self) -> None:
        """A server runs until the power fails; the next one starts with the content of the disk."""
        rng = self._rng
        disk = Disk()
        disk.adopt(self._here)
        simulation = Simulation(disk, self._here, self._patch, self._appendfsync, self._boot)
        for writer in self._writers:
            writer.connect(simulation.client())
        killed, boot = self._here, self._boot
        seen = self._run(simulation)
        simulation.stop()
        self._lose(killed, boot)
        self._verify(seen, rng)

    def _run(self, simulation: Simulation) -> int:
        """Returns the highest value of a counter that a client has read."""
        rng, disk = self._rng, simulation.disk
        reader = simulation.client()
        counter = self._writers[1]._inventor.counter
        seen = 0
        ios_left = rng.choice([1, 10, 100, 1000])
        ios_left += rng.randrange(ios_left)
        self._generation += 1
        target = self._here

        def count_down() -> None:
            nonlocal ios_left
            ios_left -= 1
            if ios_left == 0:
                self._possible = [
                    (writer.acknowledged, list(writer.states)) for writer in self._writers
                ]
                disk.image(target, rng)

        disk.on_io = count_down
        while ios_left > 0:
            rng.choice(self._writers).send()
            if rng.random() < 0.2:
                reader.send([b"GET", counter])
            for _ in range(rng.randint(0, 6)):
                if ios_left > 0:
                    simulation.run_one(rng)
                if ios_left > 0:
                    for writer in self._writers:
                        writer.receive()
                    seen = max([seen, *(int(reply or 0) for reply in reader.replies)])
                    reader.replies.clear()
            if ios_left > 0 and rng.random() < 0.1:
                simulation.clock.advance(rng.choice([0.1, 1.0]))
        return seen

    def _lose(self, killed: Path, boot: str) -> None:
        """A server that was killed leaves files that lack nothing. When they are damaged then, the
        next one has all that was acknowledged, or does not start."""
        for number in range(DAMAGES):
            damaged = killed.with_suffix(f".damaged-{number}")
            shutil.copytree(killed, damaged)
            what = self._rng.choice(LOSSES)
            what(damaged / "a.db", self._rng)
            try:
                opened = FileStore(damaged / "a.db", boot=boot)
            except StorageError:
                self.refused += 1
                continue
            for writer in self._writers:
                found, promised = writer.find(opened), writer.states[writer.acknowledged :]
                assert found in promised, f"{what.__name__}: {difference(found, promised)}"
            opened.abandon()

    def _verify(self, seen: int, rng: random.Random) -> None:
        check_rows_of_image(self._here)
        opened = FileStore(self._here / "a.db", boot=self._boot)
        for writer, (acknowledged, states) in zip(self._writers, self._possible, strict=True):
            found = writer.find(opened)
            if self._appendfsync == "always":
                assert found in states[acknowledged:], difference(found, states[acknowledged:])
            else:
                assert found in states, "half of something"
                self.lost += found not in states[acknowledged:]
            writer.states, writer.acknowledged = [found], 0
        if self._appendfsync == "always":
            found = self._writers[1].find(opened)
            value, _ = found.get((0, self._writers[1]._inventor.counter), (b"0", -1))
            assert isinstance(value, bytes)
            assert int(value) >= seen, "somebody has read what is gone"
        check_counts(opened.keyspace)
        opened.close()
        check_settled(self._here / "a.db")


def check_rows_of_image(folder: Path) -> None:
    copy = folder.with_suffix(".copy")
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    check_rows(copy / "a.db")


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Folds and checkpoints all the time, in small steps."""
    monkeypatch.setattr(fold, "SLICE_ROWS", 5)
    monkeypatch.setattr(pending_rows, "SORTED_ROWS", 10)
    monkeypatch.setattr(fold, "PASS_OPS", 60)
    monkeypatch.setattr(turn, "CHECKPOINT_PAGES", 40)
    monkeypatch.setattr(list_chunks, "CHUNK", 4)
    monkeypatch.setattr(journal, "LARGEST_ROW", 200)
    return monkeypatch


@pytest.mark.parametrize("seed", range(SEEDS))
def test_always_loses_nothing_that_was_acknowledged(
    seed: int, tmp_path: Path, restless: pytest.MonkeyPatch
) -> None:
    cuts = PowerCuts(seed, tmp_path, restless, "always")
    cuts.first_start()
    for _ in range(POWER_CUTS):
        cuts.cycle()


def test_everysec_loses_the_last_moments_but_breaks_nothing(
    tmp_path: Path, restless: pytest.MonkeyPatch
) -> None:
    lost = refused = 0
    for seed in range(SEEDS // 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        cuts = PowerCuts(seed, folder, restless, "everysec")
        cuts.first_start()
        for _ in range(POWER_CUTS):
            cuts.cycle()
        lost += cuts.lost
        refused += cuts.refused
    assert lost > 0, "the disk never forgot anything, so the other test proves nothing"
    assert refused > 0, "no damage was ever noticed"


def test_what_is_read_after_a_crash_is_there_after_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that was committed and not yet synced when the server died is still in the page
    cache. The next server must not show it to a client before it is on the disk."""
    here = tmp_path / "here"
    here.mkdir()
    disk = Disk()
    simulation = Simulation(disk, here, monkeypatch)
    simulation.client().send([b"SET", b"key", b"value"])
    while simulation.loop.soon:
        simulation.loop.soon.popleft()()
    simulation.stop()
    simulation = Simulation(disk, here, monkeypatch)
    assert simulation.call(simulation.client(), b"GET", b"key") == b"value"
    disk.image(tmp_path / "later")
    simulation.stop()
    opened = FileStore(tmp_path / "later" / "a.db")
    assert opened.keyspace.databases[0].read_string(b"key") == b"value"
    opened.close()


@pytest.mark.parametrize("ios", range(1, 56, 4))
def test_a_file_whose_making_was_interrupted_can_be_opened(
    ios: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(ios)
    images: list[tuple[Path, bool]] = []
    disk = Disk()
    client: Client | None = None

    def count_down() -> None:
        nonlocal ios
        ios -= 1
        if ios < 0 and len(images) < 4:
            folder = tmp_path / f"image-{len(images)}"
            disk.image(folder, rng)
            images.append((folder, client is not None and bool(client.replies)))

    disk.on_io = count_down
    (tmp_path / "here").mkdir()
    simulation = Simulation(disk, tmp_path / "here", monkeypatch)
    client = simulation.client()
    for _ in range(3):
        client.send([b"SET", b"key", b"value"])
        simulation.run()
    simulation.stop()
    monkeypatch.undo()
    assert images
    for folder, is_acknowledged in images:
        opened = FileStore(folder / "a.db")
        value = opened.keyspace.databases[0].read_string(b"key")
        assert value == b"value" if is_acknowledged else value in (None, b"value")
        opened.close()
        check_settled(folder / "a.db")
