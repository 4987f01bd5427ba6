"""What _xxh3.c has for Python."""

Lanes = tuple[int, int, int, int, int, int, int, int]

def absorb(data: bytes | memoryview, secret: bytes, lanes: Lanes, /) -> list[int]: ...
