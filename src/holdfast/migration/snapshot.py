"""Writes a snapshot for replicas:
`python -m holdfast.migration.snapshot DATABASE FD DELAY_US FORMAT`.

The server that has the database starts it (server/primary/snapshot_process.py). The first line of
the output is the number of the last batch of the journal that the snapshot has. The input is a pipe
that closes when the server is gone: then the process ends, too.
"""

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.migration.database_content import database_content
from holdfast.migration.replica_file import DATABASE
from holdfast.server.replica.position import unpack
from holdfast.server.version import REDIS_VERSION
from holdfast.store.rdb.file_writer import FORMATS, RdbWriter
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.records import Entry, Keys, Library, Sizes
from holdfast.store.rdb.value_codec import has_expiring_fields


def main(database: str, target: str, delay_us: str, form: str) -> None:
    """`target` is the number of an open file. The delay is a sleep after each key, for tests."""
    pause = _pause(int(delay_us))
    now_ms = time.time_ns() // 1_000_000
    with (
        database_content(Path(database), now_ms, on_moment=_say) as content,
        os.fdopen(int(target), "wb") as file,
    ):
        writer = RdbWriter(file.write, FORMATS[form])
        has_field_times = FORMATS[form].expiring_hash is not None
        facts = {b"redis-ver": REDIS_VERSION.encode(), b"redis-bits": b"64"}
        position = unpack(content.position)
        if position is not None:
            # A replica: its primary decides what expires, and selects a database when it must.
            content.keep_expired()
            facts[DATABASE] = b"%d" % position.database
        writer.begin(facts)
        for record in content.records(joins_keys=pause is None):
            if isinstance(record, Entry):
                value = record.value if has_field_times else _without_field_times(record.value)
                writer.entry(record.name, value, record.expires_at_ms)
                if pause is not None:
                    pause()
            elif isinstance(record, Keys):
                writer.keys(record)
            elif isinstance(record, Sizes):
                writer.database(record.database, record.keys, record.expiring)
            elif isinstance(record, Library):
                writer.library(record.code)
        writer.end()


def _pause(delay_us: int) -> Callable[[], object] | None:
    return partial(time.sleep, delay_us / 1e6) if delay_us > 0 else None


def _say(lsn: int) -> None:
    print(lsn, flush=True)  # noqa: T201 - the server waits for it


def _without_field_times(value: Plain) -> Plain:
    """For Redis 7.0, which knows no such times. The server that has the database deletes a field
    that has expired, and its replica need not know when."""
    if value.type != "hash" or not has_expiring_fields(value):
        return value
    return Plain("hash", [(name, text, None) for name, text, _ in value.content])


def _end_with_server() -> None:
    os.read(sys.stdin.fileno(), 1)  # not by `sys.stdin`, whose lock an exit would wait for
    os._exit(1)


if __name__ == "__main__":
    gc.disable()  # records are no garbage, and searching them takes time
    threading.Thread(target=_end_with_server, daemon=True).start()
    try:
        main(*sys.argv[1:])
    except StorageError as error:
        sys.exit(str(error))
