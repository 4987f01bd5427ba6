"""Append-only files that Redis writes in bad times, or never. test_real_servers.py has others."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from holdfast.migration.errors import MigrationError
from holdfast.migration.importing import ImportOptions, import_file
from holdfast.migration.report import Report
from tests.harness import encode_command
from tests.migration.conftest import WriteRdb, text
from tests.migration.test_importing import entries, names
from tests.store.rdb.rdb_bytes import rdb

NOW_MS = 1_700_000_000_000
SET_A = encode_command("SET", "a", "1")
SET_B = encode_command("SET", "b", "2")

Folder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Writes a folder of append-only files: `folder(base=…, incr=[…])`."""

    def write(base: bytes | None, *incremental: bytes, base_name: str = "base.aof") -> Path:
        path = tmp_path / "appendonlydir"
        path.mkdir(exist_ok=True)
        lines = []
        if base is not None:
            (path / base_name).write_bytes(base)
            lines.append(f"file {base_name} seq 1 type b")
        for number, data in enumerate(incremental, 1):
            (path / f"{number}.incr.aof").write_bytes(data)
            lines.append(f'file "{number}.incr.aof" seq {number} type i startoffset 7')
        lines.append("file gone.aof seq 1 type h")
        (path / "appendonly.aof.manifest").write_text("\n".join(lines) + "\n")
        return path

    return write


def run(source: Path, options: ImportOptions | None = None) -> Report:
    db = source.with_name("app.db")
    return import_file(source, db, options or ImportOptions(), clock=ManualClock(NOW_MS))


def keys(source: Path) -> list[bytes]:
    return [name for _, name in names(source.with_name("app.db"))]


def test_a_folder(folder: Folder) -> None:
    source = folder(SET_A, SET_B + encode_command("SELECT", 2), encode_command("SET", "c", 3))
    assert run(source).key_count == 3
    assert names(source.with_name("app.db")) == [(0, b"a"), (0, b"b"), (0, b"c")]


def test_one_file_of_an_older_redis(tmp_path: Path) -> None:
    preamble = b"\xfa\x0caof-preamble\xc0\x01"
    base = rdb(preamble, b"\x00\x01a\x011", header=b"REDIS0009")
    for data in (SET_A + SET_B, base + SET_B, base[: len(base)] + b"#TS:1700000000\r\n" + SET_B):
        source = tmp_path / "appendonly.aof"
        source.write_bytes(data)
        run(source, ImportOptions(replaces=True))
        assert keys(source) == [b"a", b"b"]


def test_more_databases(folder: Folder) -> None:
    source = folder(encode_command("SELECT", 40) + SET_A)
    run(source, ImportOptions(databases=41))
    assert names(source.with_name("app.db")) == [(40, b"a")]


def test_options_mean_the_same_as_for_an_rdb_file(folder: Folder, write_rdb: WriteRdb) -> None:
    """Commands of the file do not see the keys of the target."""
    db = write_rdb([text(b"counter", b"10"), text(b"old")]).with_name("app.db")
    import_file(db.with_name("dump.rdb"), db, ImportOptions())
    source = folder(encode_command("INCR", "counter"))
    report = run(source, ImportOptions(merges=True))
    assert (report.key_count, report.keys["string"]) == (1, 1)
    assert sorted(keys(source)) == [b"counter", b"old"]
    assert import_file(source, db.with_name("new.db"), ImportOptions(dry_run=True)).key_count == 1
    assert not db.with_name("new.db").exists()


@pytest.mark.parametrize("cut", [1, 3, 5, 8, 12, len(SET_B) - 1])
def test_a_last_command_that_is_cut_is_left_out(folder: Folder, cut: int) -> None:
    source = folder(SET_A, SET_B[:cut])
    report = run(source, ImportOptions(replaces=True))
    assert keys(source) == [b"a"]
    assert report.notes == [
        f"{source}/1.incr.aof ends inside of a command, which is left out",
        f"the last {cut} bytes of {source}/1.incr.aof are left out",
    ]


def test_a_transaction_without_its_end_is_left_out(folder: Folder) -> None:
    source = folder(SET_A, encode_command("MULTI") + SET_B)
    report = run(source)
    assert keys(source) == [b"a"]
    assert report.notes == [f"{source}/1.incr.aof ends inside of a transaction, which is left out"]


def test_time_stands_still(folder: Folder) -> None:
    """The key had expired before the import, but not before it was made to stay."""
    source = folder(
        encode_command("SET", "a", 1, "PXAT", NOW_MS - 1000)
        + encode_command("SET", "b", 1, "PXAT", NOW_MS - 1000)
        + b"#TS:1600000000\r\n"
        + encode_command("PERSIST", "a")
    )
    run(source)
    assert keys(source) == [b"a"]


@pytest.mark.parametrize(
    ("base", "incremental", "error"),
    [
        (SET_A[:-3], [SET_B], "base.aof ends inside of a command, and is not the last file"),
        (encode_command("MULTI"), [SET_B], "ends inside of a transaction, and is not the last"),
        (SET_A + b"SET b 2\r\n", [], "base.aof is damaged: byte 27 begins no command"),
        (SET_A + b"*0\r\n", [], "byte 27 begins no command"),
        (SET_A + b"*x\r\n", [], "byte 27 begins no command"),
        (SET_A + b"*1\r\n:1\r\n", [], "byte 27 begins no command"),
        (SET_A.replace(b"SET\r\n", b"SET!!"), [], "byte 0 begins no command"),
        (SET_A + b"*1\r\n$" + b"9" * 100, [], "byte 27 begins no command"),
        (encode_command("JSON.SET", "a", "$", "1"), [], "command 'JSON.SET' of"),
        (encode_command("LPUSH", "a", 1) + SET_A + encode_command("LPOP", "a"), [], "WRONGTYPE"),
        (
            encode_command("MULTI") + SET_A + encode_command("LPOP", "a") + encode_command("EXEC"),
            [],
            "WRONGTYPE",
        ),
        (encode_command("BLPOP", "a", 0), [], "a command waits for a key"),
        (b"REDIS0010\x00", [], "base.aof is damaged at byte"),
    ],
)
def test_damage_is_one_sentence(
    folder: Folder, base: bytes, incremental: list[bytes], error: str
) -> None:
    source = folder(base, *incremental)
    with pytest.raises(MigrationError) as raised:
        run(source)
    assert error in str(raised.value)
    assert sorted(path.name for path in source.parent.iterdir()) == ["appendonlydir"]


@pytest.mark.parametrize(
    "words",
    ["CLIENT REPLY OFF", "QUIT", "REPLCONF ACK 1", "CLIENT PAUSE 100000", "PSYNC ? -1", "GET a"],
)
def test_a_command_that_belongs_to_no_such_file(folder: Folder, words: str) -> None:
    """Some of them have no reply: the replay would wait for ever."""
    source = folder(SET_A, encode_command(*words.split()) + SET_B)
    with pytest.raises(MigrationError, match="belongs to no such file"):
        run(source)
    assert run(source, ImportOptions(skips_unknown=True)).key_count == 2


def test_a_time_that_is_none(folder: Folder) -> None:
    base = rdb(b"\xfa\x05ctime\x03abc")
    assert run(folder(base, SET_A, base_name="base.rdb")).key_count == 1


def test_a_refused_command_may_be_left_out(folder: Folder) -> None:
    source = folder(SET_A + encode_command("JSON.SET", "j", "$", "1") + SET_B)
    report = run(source, ImportOptions(skips_unknown=True))
    assert keys(source) == [b"a", b"b"]
    assert report.unfit == 1


def test_idempotent_ids_of_redis_8_are_left_out_and_entries_are_not(folder: Folder) -> None:
    """An XADD without the id of its entry is a message that came again."""
    commands = [
        "XADD s IDMP p 1 5-1 a b",
        "XADD s IDMP p 1 * a b",
        "XADD s KEEPREF IDMPAUTO p MAXLEN = 9 6-1 IDMP x",
        "XADD s 7-1 a IDMP",
        "XCFGSET s IDMP-MAXSIZE 5",
        "XIDMPRECORD s p 1 5-1",
        "XGROUP CREATE s g 0",
        "XNACK s g FAIL IDS 1 6-1 RETRYCOUNT 3 FORCE",
    ]
    source = folder(b"".join(encode_command(*line.split()) for line in commands))
    run(source)
    (entry,) = entries(source.with_name("app.db"))
    stream = entry.value.content
    fields = [(b"a", b"b"), (b"IDMP", b"x"), (b"a", b"IDMP")]
    assert [fields for _, fields in stream.entries] == fields
    assert stream.groups[0].returned == [(stream.entries[1][0], 3)]
    assert stream.idempotence is None


@pytest.mark.parametrize(
    ("manifest", "error"),
    [
        (None, "has no manifest of append-only files"),
        ("file missing.aof seq 1 type b\n", "missing.aof is missing"),
        ("file ../evil seq 1 type b\n", "is damaged, in line 1"),
        ("# fine\nnonsense\n", "is damaged, in line 2"),
    ],
)
def test_a_folder_without_its_files(folder: Folder, manifest: str | None, error: str) -> None:
    source = folder(SET_A)
    path = source / "appendonly.aof.manifest"
    if manifest is None:
        path.unlink()
    else:
        path.write_text(manifest)
    with pytest.raises(MigrationError) as raised:
        run(source)
    assert error in str(raised.value)
