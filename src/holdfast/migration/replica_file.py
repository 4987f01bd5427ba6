"""Writes the database file of a replica from the snapshot of its primary, which comes on stdin:
`python -m holdfast.migration.replica_file FILE DATABASES SKIPS_UNKNOWN`.

The server that follows the primary starts it (server/replica/snapshot_load.py), often before the
primary has a snapshot. So the first line on stdin describes the snapshot: its size, or 0 if it is
unknown, and the id and offset of the stream. The file gets the position in the stream of the
primary, as if the server had written it itself.
"""

import gc
import sys
from pathlib import Path

from holdfast.clock import ManualClock
from holdfast.errors import StorageError
from holdfast.migration.database_target import DatabaseTarget, load_library
from holdfast.migration.errors import MigrationError, UnfitError
from holdfast.migration.report import about_unknown
from holdfast.server.replica.position import Position
from holdfast.store.rdb.file_reader import RdbReader
from holdfast.store.rdb.records import Aux, Entry, Keys, Library, Record, Unknown
from holdfast.store.rdb.value_codec import RdbError

PIECE_BYTES = 1 << 18
DATABASE = b"repl-stream-db"


class ReplicaFile:
    """The clock stands at the beginning of time: the primary decides which keys have expired."""

    def __init__(self, path: Path, databases: int, *, skips_unknown: bool) -> None:
        self._clock = ManualClock(1)
        self._target = DatabaseTarget(path, databases, self._clock)
        self._skips_unknown = skips_unknown
        self._database = 0  # that the primary has selected

    def take(self, record: Record) -> None:
        """Raises UnfitError."""
        if isinstance(record, Keys):
            if not self._target.puts_keys(record, record.database):
                for entry in record.entries():
                    self.take(entry)
            return
        try:
            if isinstance(record, Entry):
                self._target.put(record, record.database)
            elif isinstance(record, Library):
                load_library(record.code, self._target.store, self._clock)
            elif isinstance(record, Unknown):
                raise UnfitError(about_unknown(record))
            elif isinstance(record, Aux) and record.name == DATABASE and record.value.isdigit():
                self._database = int(record.value)
        except UnfitError as error:
            if not self._skips_unknown:
                raise UnfitError(
                    f"{error}; replica-skip-unknown yes follows without such keys"
                ) from None

    def close(self, replication_id: bytes, offset: int) -> None:
        position = Position(replication_id, offset, self._database)
        self._target.store.keyspace.set_position(position.pack())
        self._target.close()

    def abandon(self) -> None:
        self._target.abandon()


def main(path: str, databases: str, skips_unknown: str) -> None:
    file = ReplicaFile(Path(path), int(databases), skips_unknown=bool(int(skips_unknown)))
    try:
        with open(sys.stdin.fileno(), "rb", closefd=False) as source:
            line = source.readline()
            if not line:
                sys.exit("the primary has sent no snapshot")
            nbytes, replication_id, offset = line.split()
            reader = RdbReader(int(nbytes) or None, joins_keys=True)
            while data := source.read1(PIECE_BYTES):
                for record in reader.feed(data):
                    file.take(record)
                if reader.is_at_end and reader.rest():
                    raise RdbError("damaged: its data ends, and more follows")
        reader.end()
    except BaseException:
        file.abandon()
        raise
    file.close(replication_id, int(offset))


if __name__ == "__main__":
    gc.disable()  # records are no garbage, and searching them takes time
    try:
        main(*sys.argv[1:])
    except (StorageError, MigrationError, RdbError) as error:
        sys.exit(f"the snapshot of the primary cannot be used: {error}")
