"""Which records move, and into which databases."""

from collections.abc import Mapping, Sequence

from holdfast.glob import compile_glob


class Selection:
    """Patterns of the names of keys, as for SCAN; none: all keys. Databases that the map does not
    name keep their numbers."""

    def __init__(
        self, patterns: Sequence[bytes] = (), databases: Mapping[int, int] | None = None
    ) -> None:
        self._matchers = [compile_glob(pattern) for pattern in patterns]
        self._databases = dict(databases or {})

    def has(self, name: bytes) -> bool:
        return not self._matchers or any(matches(name) for matches in self._matchers)

    def database(self, index: int) -> int:
        return self._databases.get(index, index)
