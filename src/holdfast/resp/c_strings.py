"""Bytes as C reads them. Redis is written in C, and its errors and numbers show it."""


def c_string(text: bytes) -> bytes:
    """The bytes before the first NUL: a string of C ends there."""
    return text.partition(b"\0")[0]
