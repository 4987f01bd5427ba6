"""Bytes as C reads them. Redis is written in C, so its errors and numbers often end at a NUL."""


def c_string(text: bytes) -> bytes:
    """The bytes before the first NUL: a string of C ends there."""
    return text.partition(b"\0")[0]
