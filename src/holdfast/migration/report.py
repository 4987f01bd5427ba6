"""The result of a move: counts of what moved, and sentences about what did not."""

from collections import Counter
from dataclasses import dataclass, field

from holdfast.store.rdb.file_reader import printable
from holdfast.store.rdb.records import Unknown

MOST_NAMED = 1000  # sentences about things that do not fit; the others are counted


@dataclass
class Report:
    keys: Counter[str] = field(default_factory=Counter)  # by type
    databases: set[int] = field(default_factory=set)  # of the target
    libraries: int = 0
    expired: int = 0
    unmatched: int = 0
    present: int = 0  # of the keys; a target that runs had them already
    unfit: int = 0
    sentences: list[str] = field(default_factory=list)  # about what does not fit
    notes: list[str] = field(default_factory=list)

    @property
    def key_count(self) -> int:
        return self.keys.total()

    def moved(self, type_name: str, database: int, count: int = 1) -> None:
        self.keys[type_name] += count
        self.databases.add(database)

    def left_out(self, sentence: str) -> None:
        self.unfit += 1
        if len(self.sentences) < MOST_NAMED:
            self.sentences.append(sentence)


def about_unknown(record: Unknown) -> str:
    """A sentence about a record that has no place here."""
    if record.kind.startswith("library"):
        return f"{printable(record.name)} is a {record.kind}"
    return (
        f"key {printable(record.name)} of database {record.database} is of the type {record.kind},"
        " which Holdfast does not have"
    )
