"""Large strings that change many times in a batch are written down once, and as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.store.change.ops import STRINGS
from holdfast.store.change.runs import rows_in
from holdfast.store.memory.database import LARGE_STRING
from holdfast.store.memory.keyspace import Keyspace
from holdfast.store.memory.savepoint import Savepoint
from holdfast.store.store import FileStore

LARGE = b"x" * LARGE_STRING


@pytest.fixture
def keyspace() -> Keyspace:
    keyspace = Keyspace()
    keyspace.databases[0].set_string(b"k", LARGE)
    keyspace.ops.clear()
    return keyspace


def written(keyspace: Keyspace) -> list[bytes]:
    rows = [row for op in keyspace.ops for row in rows_in(op)]
    return [value for table, _, _, value in rows if table == STRINGS]


def test_only_the_last_value_of_a_large_string_is_written(keyspace: Keyspace) -> None:
    database = keyspace.databases[0]
    for number in range(10):
        database.set_string(b"k", LARGE + b"%d" % number)
        database.set_string(b"other%d" % number, b"v")
    values = written(keyspace)
    assert len(values) == 11
    assert values[0] == LARGE + b"9"


def test_a_string_that_was_small_in_between_keeps_its_last_value(keyspace: Keyspace) -> None:
    database = keyspace.databases[0]
    for value in (LARGE, b"a", b"b", LARGE + b"c", b"d", LARGE + b"e"):
        database.set_string(b"k", value)
    assert written(keyspace)[-1] == LARGE + b"e"


def test_a_script_that_fails_leaves_what_was_written_before_it(keyspace: Keyspace) -> None:
    database = keyspace.databases[0]
    database.set_string(b"k", LARGE + b"before")
    savepoint = Savepoint(keyspace)
    database.set_string(b"k", LARGE + b"within")
    savepoint.roll_back()
    assert written(keyspace) == [LARGE + b"before"]
    database.set_string(b"k", LARGE + b"after")
    assert written(keyspace)[-1] == LARGE + b"after"


def test_a_batch_begins_anew(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a.db")
    database = store.keyspace.databases[0]
    for number in range(3):
        database.set_string(b"k", LARGE + b"%d" % number)
        store.commit()
    assert not store.keyspace.large  # nor is it kept alive
    store.abandon()
    store = FileStore(tmp_path / "a.db")
    assert store.keyspace.databases[0].read_string(b"k") == LARGE + b"2"
    store.close()


def test_the_installed_code_does_so_too() -> None:
    """The installed code may be compiled, and compiled code may copy a tuple: `is` can differ."""
    code = f"""
from holdfast.store.memory.keyspace import Keyspace
keyspace = Keyspace()
for number in range(10):
    keyspace.databases[0].set_string(b"k", b"x" * ({LARGE_STRING} + number))
print([len(value) for table, _, _, value in keyspace.ops if table == {STRINGS}])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == f"[{LARGE_STRING}, {LARGE_STRING + 9}]\n", ran.stderr
