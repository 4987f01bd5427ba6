"""The records that move, and the databases into which they move."""

from collections.abc import Iterable, Mapping, Sequence

from holdfast.glob import compile_glob
from holdfast.migration.errors import MigrationError


class Selection:
    """Patterns of the names of keys, as for SCAN; none: all keys. Databases that the map does not
    name keep their numbers."""

    def __init__(
        self, patterns: Sequence[bytes] = (), databases: Mapping[int, int] | None = None
    ) -> None:
        self._matchers = [compile_glob(pattern) for pattern in patterns]
        self._databases = dict(databases or {})

    @property
    def has_patterns(self) -> bool:
        return bool(self._matchers)

    @property
    def is_choice(self) -> bool:
        """Whether anything stays behind, or gets another place."""
        return self.has_patterns or any(old != new for old, new in self._databases.items())

    def has(self, name: bytes) -> bool:
        return not self._matchers or any(matches(name) for matches in self._matchers)

    def database(self, index: int) -> int:
        return self._databases.get(index, index)

    def destinations(self, databases: Iterable[int], only: int | None = None) -> dict[int, int]:
        """The number that each of these databases gets. If the target has `only` one, a single
        database becomes that. Raises MigrationError if two would become one: a name may be in
        both."""
        origins = sorted(databases)
        found = {origin: self.database(origin) for origin in origins}
        if only is not None and len(origins) > 1:
            numbers = ", ".join(map(str, origins))
            raise MigrationError(
                f"the target has one database, and the source has keys in databases {numbers}"
            )
        for place, origin in enumerate(origins):
            for other in origins[:place]:
                if found[other] == found[origin]:
                    raise MigrationError(
                        f"databases {other} and {origin} would both become database {found[origin]}"
                    )
        return found if only is None else dict.fromkeys(origins, only)
