"""What _packed_keys.c has for Python: the class that packed_keys.py has, too."""

def trim() -> None: ...

class PackedKeys:
    nbytes: int

    def __len__(self) -> int: ...
    def __contains__(self, name: bytes) -> bool: ...
    def put(
        self,
        name: bytes,
        key_id: int,
        kind: int,
        accessed_s: int,
        expires_at_ms: int | None,
        body: bytes,
        /,
    ) -> int: ...
    def put_hash(self, argv: list[bytes], key_id: int, accessed_s: int, /) -> int: ...
    def read_new(
        self,
        names: list[bytes],
        first_id: int,
        start: int,
        most_rows: int,
        most_bytes: int,
        /,
    ) -> tuple[
        int,
        list[int],
        list[bytes],
        list[bytes],
        list[int],
        list[bytes],
        list[int],
        list[bytes],
        list[bytes],
        list[int],
        list[int],
    ]: ...
    def row(self, name: bytes, /) -> tuple[int, int, int | None] | None: ...
    def take(self, name: bytes, /) -> tuple[int, int, int, int | None, bytes] | None: ...
    def string(self, name: bytes, now_ms: int, now_s: int, /) -> bytes | None: ...
    def forget(self, most: int, samples: int, before_s: int, below_id: int, /) -> int: ...
    def dissolve(self, most: int, /) -> int: ...
    def names(self) -> list[bytes]: ...
