"""Replies that are always the same. (By themselves, because compiled code finds at once what a
compiled module has, and their types cannot be compiled.)"""

from typing import Final

from holdfast.resp.kinds import NullArray, Simple

NULL_ARRAY: Final = NullArray()
OK: Final = Simple(b"OK")
QUEUED: Final = Simple(b"QUEUED")
PONG: Final = Simple(b"PONG")
