"""Tables without a store around them, for the tests of the code that writes rows."""

import re
from contextlib import closing
from importlib.resources import files
from typing import Any

import apsw

from holdfast.store.store import FileStore


def rows(store: FileStore, sql: str) -> list[tuple[Any, ...]]:
    """As another program sees the file of a store."""
    with closing(apsw.Connection(str(store.path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return list(connection.execute(sql))


class CutOffError(Exception):
    """The pass ended here."""


class Tables:
    """The whole schema, empty, and the statements executed on it."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        for name in ("schema.sql", "views.sql"):
            self.connection.execute(files("holdfast.store.file").joinpath(name).read_text())
        self.statements: list[str] = []  # "INSERT list_blocks"
        self.allowed = -1  # statements until it is cut off; negative: for ever
        self.connection.exec_trace = self._trace

    def _trace(self, _: object, sql: str, __: object) -> bool:
        if self.allowed == 0:
            raise CutOffError
        self.allowed -= 1
        verb, table = sql.split()[0], re.search(r"redis_(\w+)", sql)
        self.statements.append(f"{verb} {table[1] if table else ''}")
        return True
