"""A file that lacks acknowledged writes is not opened: its mark says which must be there."""

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StorageError
from holdfast.store.backup import backup
from holdfast.store.check import check_file
from holdfast.store.file import reading
from holdfast.store.file.mark import COPYING, MarkContent, read_mark
from holdfast.store.file.wal import FRAME_HEADER, WAL_HEADER, WalFile
from holdfast.store.fold import fold
from holdfast.store.store import FileStore

FRAME = FRAME_HEADER + 4096
BATCHES = 60


def killed(path: Path, batches: int = BATCHES, *, syncs: bool = True) -> None:
    """A server that has acknowledged so many writes, and was killed."""
    store = FileStore(path)
    for number in range(batches):
        write(store, b"k%d" % number)
        if syncs:
            store.sync()
        else:
            store.note_committed()
    store.abandon()


def write(store: FileStore, name: bytes) -> None:
    store.keyspace.databases[0].set_string(name, b"v")
    store.commit()


def key_count(store: FileStore) -> int:
    return len(store.keyspace.databases[0])


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def mark_of(path: Path) -> Path:
    return path.with_name(path.name + "-mark")


def flip_a_bit(path: Path, offset: int, bit: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= bit
    path.write_bytes(data)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".db-shm"}


# -- files that are refused -----------------------------------------------------------------------


def damage_a_page(path: Path) -> None:
    flip_a_bit(wal_of(path), WAL_HEADER + 20 * FRAME + 1000)


def damage_the_last_frame(path: Path) -> None:
    wal = WalFile(wal_of(path))
    frames = sum(1 for _ in wal.pages(0))
    wal.close()
    flip_a_bit(wal_of(path), WAL_HEADER + (frames - 1) * FRAME + 2000)


def damage_a_frame_checksum(path: Path) -> None:
    flip_a_bit(wal_of(path), WAL_HEADER + 50 * FRAME + 17)


def damage_the_first_frame(path: Path) -> None:
    flip_a_bit(wal_of(path), WAL_HEADER + 100)


def damage_the_header(path: Path) -> None:
    flip_a_bit(wal_of(path), 18)


def remove_the_wal(path: Path) -> None:
    wal_of(path).unlink()


def empty_the_wal(path: Path) -> None:
    os.truncate(wal_of(path), 0)


def cut_the_wal_short(path: Path) -> None:
    os.truncate(wal_of(path), WAL_HEADER + 30 * FRAME + 7)


def zero_the_end_of_the_wal(path: Path) -> None:
    size = wal_of(path).stat().st_size
    os.truncate(wal_of(path), size - 10 * FRAME)
    os.truncate(wal_of(path), size)


def empty_the_file(path: Path) -> None:
    os.truncate(path, 0)


def remove_the_file(path: Path) -> None:
    path.unlink()


def checkpoint_a_damaged_wal(path: Path) -> None:
    """As a person might do to find the mistake: SQLite removes the evidence."""
    damage_a_page(path)
    connection = apsw.Connection(str(path))
    _ = connection.execute("SELECT count(*) FROM sqlite_master").get
    connection.close()
    assert not wal_of(path).exists()


LOSSES = [
    damage_a_page,
    damage_the_last_frame,
    damage_a_frame_checksum,
    damage_the_first_frame,
    damage_the_header,
    remove_the_wal,
    empty_the_wal,
    cut_the_wal_short,
    zero_the_end_of_the_wal,
    empty_the_file,
    remove_the_file,
    checkpoint_a_damaged_wal,
]


@pytest.mark.parametrize("syncs", [True, False], ids=["synced", "committed"])
@pytest.mark.parametrize("lose", LOSSES)
def test_the_loss_of_acknowledged_writes_is_a_clear_error(
    tmp_path: Path, lose: Callable[[Path], None], syncs: bool
) -> None:
    path = tmp_path / "x.db"
    killed(path, syncs=syncs)
    lose(path)
    before = contents(tmp_path)
    with pytest.raises(StorageError, match="--accept-data-loss") as caught:
        FileStore(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert contents(tmp_path) == before  # all files are left as they were, for a repair by hand


@pytest.mark.parametrize("lose", [lose for lose in LOSSES if lose is not remove_the_file])
def test_check_and_backup_say_what_a_start_says(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    path = tmp_path / "x.db"
    killed(path)
    lose(path)
    before = contents(tmp_path)
    problems = check_file(path)
    with pytest.raises(StorageError, match="--accept-data-loss") as caught:
        backup(path, tmp_path / "copy.db")
    assert contents(tmp_path) == before
    with pytest.raises(StorageError) as at_start:
        FileStore(path)
    assert problems == [str(at_start.value)] == [str(caught.value)]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_loss_can_be_accepted_once(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    path = tmp_path / "x.db"
    killed(path)
    lose(path)
    store = FileStore(path, accept_data_loss=True)
    left = key_count(store)
    assert left < BATCHES
    write(store, b"more")
    store.sync()
    store.abandon()
    store = FileStore(path)  # and from here on nothing may be lost again
    assert key_count(store) == left + 1
    store.close()
    assert check_file(path) == []
    assert os.listdir(tmp_path) == ["x.db"]


def copied_and_killed(store: FileStore) -> None:
    for number in range(BATCHES):
        write(store, b"k%d" % number)
        store.sync()
    store.fold()
    store.sync()
    store.checkpoint()
    store.abandon()


def test_a_wal_that_was_copied_into_the_file_and_then_damaged_is_not_laid_over_it(
    tmp_path: Path,
) -> None:
    """The file has it all, but SQLite would show the old pages of the frames that are left."""
    path = tmp_path / "x.db"
    copied_and_killed(FileStore(path))
    flip_a_bit(wal_of(path), WAL_HEADER + 40 * FRAME + 1000)
    with pytest.raises(StorageError, match=r"damaged after frame \d\d, and \d\d more follow"):
        FileStore(path)


def test_the_mark_knows_a_wal_whose_first_batch_is_larger_than_the_whole_wal_before(
    tmp_path: Path,
) -> None:
    """The number of frames grows, as it does when a WAL goes on. Only the salts show that this is
    another WAL."""
    path = tmp_path / "x.db"
    store = FileStore(path)
    write(store, b"small")
    store.sync()
    store.checkpoint()
    store.keyspace.databases[0].set_string(b"large", bytes(40 * 4096))
    store.commit()
    copied_and_killed(store)
    flip_a_bit(wal_of(path), WAL_HEADER + 60 * FRAME + 1000)
    with pytest.raises(StorageError, match=r"damaged after frame \d\d, and \d\d more follow"):
        FileStore(path)


def test_the_mark_knows_a_wal_that_was_copied_before_it_was_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fold writes a WAL of its own, and no client waits for any of it."""
    monkeypatch.setattr(fold, "SLICE_ROWS", 5)  # many commits
    path = tmp_path / "x.db"
    store = FileStore(path)
    for number in range(BATCHES):
        write(store, b"k%d" % number)
    store.sync()
    store.checkpoint()
    store.fold()
    store.checkpoint()
    store.abandon()
    flip_a_bit(wal_of(path), WAL_HEADER + 10 * FRAME + 1000)
    with pytest.raises(StorageError, match=r"old and new pages.*damaged after frame"):
        FileStore(path)


def copied_in_part(path: Path, *, ended: bool = False) -> None:
    """A server that was killed while a reader kept a checkpoint from copying all pages. The file
    alone has the right number of batches, and lacks rows of them."""
    store = FileStore(path)
    for number in range(BATCHES):
        write(store, b"k%d" % number)
    store.fold()
    reader = apsw.Connection(str(path))
    reader.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    reader.execute("BEGIN; SELECT count(*) FROM redis_keys").fetchall()
    store._connection.execute("UPDATE redis_strings SET value = 'new'")
    store.sync()
    store.checkpoint()
    if ended:
        store.note_partial_copy()
    store.abandon()
    reader.close()


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(
    "lose",
    [damage_the_first_frame, damage_the_header, remove_the_wal, empty_the_wal],
)
def test_a_file_with_a_part_of_the_pages_of_its_lost_wal_is_not_opened(
    tmp_path: Path, lose: Callable[[Path], None], ended: bool
) -> None:
    path = tmp_path / "x.db"
    copied_in_part(path, ended=ended)
    lose(path)
    with pytest.raises(StorageError, match=r"old and new pages.*--accept-data-loss"):
        FileStore(path)


def test_a_file_that_was_cut_short_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    killed(path)
    store = FileStore(path)
    store.fold()
    store.sync_and_checkpoint()
    write(store, b"more")
    store.sync()
    store.abandon()
    os.truncate(path, path.stat().st_size - 2 * 4096)
    with pytest.raises(StorageError, match="was cut short"):
        FileStore(path)
    assert any("cut short" in problem for problem in check_file(path))


def test_a_wal_from_before_the_last_start_is_not_laid_over_a_newer_file(tmp_path: Path) -> None:
    """The WAL has pages of the earlier time, and with them the id that the file had then."""
    path, old = tmp_path / "x.db", tmp_path / "old-wal"
    killed(path, 50)
    shutil.copyfile(wal_of(path), old)
    killed(path)
    shutil.copyfile(old, wal_of(path))
    before = contents(tmp_path)
    with pytest.raises(
        StorageError, match=r"x\.db-wal is older than .*--accept-data-loss"
    ) as caught:
        FileStore(path)
    assert check_file(path) == [str(caught.value)]
    assert contents(tmp_path) == before
    wal_of(path).unlink()  # as the message says
    with pytest.raises(StorageError, match=r"x\.db-wal is missing"):
        FileStore(path)
    store = FileStore(path, accept_data_loss=True)
    assert key_count(store) == 50
    store.close()


def test_a_wal_without_its_file_is_a_clear_error_also_without_a_mark(tmp_path: Path) -> None:
    """SQLite would remove it and begin an empty database."""
    path = tmp_path / "x.db"
    killed(path)
    path.unlink()
    mark_of(path).unlink()
    before = contents(tmp_path)
    with pytest.raises(StorageError, match=r"x\.db is missing, but .*--accept-data-loss"):
        FileStore(path)
    assert contents(tmp_path) == before
    store = FileStore(path, accept_data_loss=True)
    assert key_count(store) == 0
    store.close()


def test_a_mark_that_is_damaged_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    killed(path)
    flip_a_bit(mark_of(path), 30)
    with pytest.raises(StorageError, match=r"x.db-mark is damaged.*--accept-data-loss"):
        FileStore(path)
    store = FileStore(path, accept_data_loss=True)
    assert key_count(store) == BATCHES
    store.close()


def test_a_backup_copied_over_a_file_whose_wal_is_still_there_is_refused(tmp_path: Path) -> None:
    """SQLite would lay the old WAL over it, and the two become one broken database."""
    path, copy = tmp_path / "x.db", tmp_path / "copy.db"
    killed(path)
    store = FileStore(path)
    store.fold()
    store.sync_and_checkpoint()
    backup(path, copy)
    for number in range(BATCHES):
        write(store, b"more%d" % number)
        store.sync()
    store.abandon()
    shutil.copyfile(copy, path)
    with pytest.raises(StorageError, match=r"x.db-wal .* another file"):
        FileStore(path)
    wal_of(path).unlink()
    store = FileStore(path)  # a backup is another file, so the mark says nothing about it
    assert key_count(store) == BATCHES
    store.close()


# -- files that are opened ------------------------------------------------------------------------


def test_a_killed_server_starts_again(tmp_path: Path, rng: random.Random) -> None:
    path = tmp_path / "x.db"
    expected = 0
    for _ in range(20):
        store = FileStore(path)
        assert key_count(store) == expected
        for _ in range(rng.randrange(30)):
            write(store, b"k%d" % expected)
            expected += 1
            match rng.randrange(6):
                case 0:
                    store.fold()
                case 1:
                    store.sync_and_checkpoint()
                case 2:
                    store.note_committed()
                case 3:
                    store.fold_step()
                case _:
                    store.sync()
        assert check_file(path) == []  # also of one that is served
        if rng.random() < 0.3:
            store.close()
            assert os.listdir(tmp_path) == ["x.db"]
        else:
            store.abandon()
            assert check_file(path) == []


class Reader:
    """Another program, which reads the file as it was when it began."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("BEGIN; SELECT count(*) FROM redis_keys").fetchall()

    def leave(self) -> None:
        """As the last connection it copies the rest of the WAL into the file, and removes it."""
        self._connection.execute("COMMIT")
        self._connection.close()


def behind_a_reader(path: Path) -> tuple[FileStore, Reader]:
    """A server with writes that no checkpoint can copy."""
    store = FileStore(path)
    for number in range(BATCHES):
        write(store, b"k%d" % number)
    store.fold()
    reader = Reader(path)
    for number in range(BATCHES):
        write(store, b"more%d" % number)
    store.sync()
    return store, reader


def opened_whole(path: Path, keys: int = 2 * BATCHES) -> None:
    assert not wal_of(path).exists()
    assert check_file(path) == []
    store = FileStore(path)
    assert key_count(store) == keys
    store.close()
    assert os.listdir(path.parent) == ["x.db"]


def test_a_reader_copies_the_rest_of_the_wal_after_a_stop(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store, reader = behind_a_reader(path)
    store.close()
    assert wal_of(path).exists()
    reader.leave()
    opened_whole(path)


def test_a_reader_copies_the_rest_of_the_wal_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store, reader = behind_a_reader(path)
    for number in range(3):
        store.sync_and_checkpoint()
        store.note_partial_copy()
        write(store, b"last%d" % number)
        store.sync()
    store.abandon()
    reader.leave()
    opened_whole(path, 2 * BATCHES + 3)


def test_a_reader_that_was_there_at_the_start_copies_the_rest_of_the_wal(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store, reader = behind_a_reader(path)
    store.abandon()
    store = FileStore(path)
    store.abandon()
    reader.leave()
    opened_whole(path)


def test_a_server_that_stops_after_a_look_at_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark says that a checkpoint has begun. The rest of it is copied, and the WAL removed,
    before the WAL is looked at."""
    path = tmp_path / "x.db"
    store, reader = behind_a_reader(path)
    store.sync_and_checkpoint()
    marks = []

    def look_and_stop(database: Path) -> MarkContent | None:
        marks.append(read_mark(database))
        if len(marks) == 1:
            reader.leave()
            store.close()
        return marks[-1]

    monkeypatch.setattr(reading, "read_mark", look_and_stop)
    assert check_file(path) == []
    assert marks[0] is not None
    assert marks[0].copy_state == COPYING
    assert marks[1:] == [None]


def test_another_program_empties_the_wal_of_a_server_that_is_killed_then(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store, reader = behind_a_reader(path)
    store.sync_and_checkpoint()
    store.note_partial_copy()
    other = apsw.Connection(str(path))
    reader.leave()
    store._checkpointer.close()
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert wal_of(path).stat().st_size == 0
    store.abandon()
    other.close()
    opened_whole(path)


def test_a_checkpoint_that_a_reader_keeps_back_adds_nothing_to_the_wal_of_an_idle_server(
    tmp_path: Path,
) -> None:
    store, reader = behind_a_reader(tmp_path / "x.db")
    store.sync_and_checkpoint()
    store.note_partial_copy()
    extent = store.wal_extent
    store.sync_and_checkpoint()
    store.note_partial_copy()
    assert store.wal_extent == extent
    reader.leave()
    store.sync_and_checkpoint()
    store.note_partial_copy()
    assert store.wal_extent == extent
    store.close()


def test_a_write_that_was_cut_off_before_it_was_synced_is_no_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says how many frames of it are dropped."""
    path = tmp_path / "x.db"
    killed(path)
    store = FileStore(path)
    write(store, b"never acknowledged")
    store.abandon()
    damage_the_last_frame(path)
    assert check_file(path) == []
    assert caplog.text == ""
    store = FileStore(path)
    assert key_count(store) == BATCHES
    assert "x.db-wal: 1 frames behind the last valid one are dropped" in caplog.text
    store.close()


def test_what_only_a_power_cut_can_lose_may_be_lost_by_one(tmp_path: Path) -> None:
    """Committed, not synced: it survives our death, so its loss is an error until the next boot."""
    path = tmp_path / "x.db"
    store = FileStore(path, boot="one")
    write(store, b"synced")
    store.sync()
    write(store, b"committed")
    store.note_committed()
    store.abandon()
    damage_the_last_frame(path)
    with pytest.raises(StorageError, match="--accept-data-loss"):
        FileStore(path, boot="one")
    store = FileStore(path, boot="two")
    assert key_count(store) == 1
    store.close()


@pytest.mark.parametrize("is_killed", [False, True], ids=["served", "killed"])
@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA wal_checkpoint(RESTART)",
        "CREATE TABLE IF NOT EXISTS _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
        "SELECT * FROM strings",
    ],
)
def test_other_programs_may_use_the_file(tmp_path: Path, statement: str, is_killed: bool) -> None:
    """(Also because `check_file` in the same process does not give away SQLite's locks.)"""
    path = tmp_path / "x.db"
    killed(path)
    store = FileStore(path)
    for turn in range(3):
        if is_killed:
            store.abandon()
        subprocess.run(["sqlite3", str(path), statement], check=True, capture_output=True)
        if is_killed:
            store = FileStore(path)
        store.check_in_place()
        assert check_file(path) == []
        write(store, b"more %d" % turn)
        store.sync()
        store.check_in_place()
    store.abandon()
    store = FileStore(path)
    assert key_count(store) == BATCHES + 3
    store.close()


def test_a_program_that_stays_connected_while_we_die_and_return(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    killed(path)
    other = apsw.Connection(str(path))
    _ = other.execute("SELECT count(*) FROM journal").get
    store = FileStore(path)
    write(store, b"more")
    store.sync()
    store.abandon()
    other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    store = FileStore(path)
    assert key_count(store) == BATCHES + 1
    write(store, b"yet more")
    store.sync()
    store.abandon()
    store = FileStore(path)
    assert key_count(store) == BATCHES + 2
    store.close()
    other.close()


@pytest.mark.parametrize("how", ["copied", "backed up", "by SQLite"])
def test_a_copy_is_served_like_any_file(tmp_path: Path, how: str) -> None:
    path, copy = tmp_path / "x.db", tmp_path / "copy.db"
    killed(path)
    if how == "copied":
        FileStore(path).close()
        shutil.copy(path, copy)
    elif how == "backed up":
        backup(path, copy)
    else:
        subprocess.run(["sqlite3", str(path), f".backup {copy}"], check=True, capture_output=True)
    assert check_file(copy) == []
    store = FileStore(copy)
    assert key_count(store) == BATCHES
    store.close()


def test_a_backup_is_restored_over_a_file_that_was_lost(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.db", tmp_path / "copy.db"
    killed(path, 50)
    backup(path, copy)
    killed(path)
    wal_of(path).unlink()
    shutil.copyfile(copy, path)
    store = FileStore(path)
    assert key_count(store) == 50
    store.close()


def test_a_copy_from_before_the_last_start_is_put_over_a_killed_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, copy = tmp_path / "x.db", tmp_path / "copy.db"
    killed(path, 50)
    FileStore(path).close()
    shutil.copyfile(path, copy)
    for _ in range(2):
        killed(path)
        wal_of(path).unlink()
        shutil.copyfile(copy, path)
        caplog.clear()
        store = FileStore(path)
        assert key_count(store) == 50
        assert "x.db is not the file that x.db-mark was written for" in caplog.text
        store.abandon()


def test_a_file_and_its_wal_are_put_over_another_killed_one(tmp_path: Path) -> None:
    path, other = tmp_path / "x.db", tmp_path / "other.db"
    killed(path)
    killed(other, 50)
    shutil.copyfile(other, path)
    shutil.copyfile(wal_of(other), wal_of(path))
    store = FileStore(path)
    assert key_count(store) == 50
    store.close()


def test_only_its_owner_reads_the_mark(tmp_path: Path) -> None:
    killed(tmp_path / "x.db")
    assert mark_of(tmp_path / "x.db").stat().st_mode & 0o777 == 0o600


def test_a_mark_that_is_removed_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = FileStore(path)
    mark_of(path).unlink()
    store.check_in_place()
    for number in range(BATCHES):
        write(store, b"k%d" % number)
        store.sync()
    store.abandon()
    wal_of(path).unlink()
    with pytest.raises(StorageError, match="--accept-data-loss"):
        FileStore(path)


# -- while it is served ---------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("how", ["emptied", "cut short"])
@pytest.mark.parametrize("is_written_to", [False, True])
def test_a_file_that_is_cut_short_while_it_is_served_is_missed(
    tmp_path: Path, suffix: str, how: str, is_written_to: bool
) -> None:
    """A write behind the cut makes the WAL as long as before, with a hole: without a word, the next
    checkpoint would copy the hole into the file."""
    path = tmp_path / "x.db"
    killed(path)
    store = FileStore(path)
    store.fold()
    store.sync_and_checkpoint()
    for number in range(BATCHES):
        write(store, b"more%d" % number)
        store.sync()
    store.check_in_place()
    cut = path.with_name(path.name + suffix)
    os.truncate(cut, 0 if how == "emptied" else WAL_HEADER + 10 * FRAME)
    if is_written_to:
        write(store, b"behind the cut")
        store.sync()
    with pytest.raises(StorageError, match=f"{cut.name} was cut short while it was in use"):
        store.check_in_place()
    store.abandon()
