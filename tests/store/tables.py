"""Tables without a store around them, for the tests of what writes their rows."""

import re
from importlib.resources import files

import apsw


class CutOffError(Exception):
    """The pass ended here."""


class Tables:
    """All of the schema, empty, and what is executed on it."""

    def __init__(self) -> None:
        self.connection = apsw.Connection(":memory:")
        self.connection.execute(files("holdfast.store").joinpath("schema.sql").read_text())
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
