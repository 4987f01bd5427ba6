"""Replies that are always the same. They have a module of their own because it is compiled, and
compiled code reads the names of a compiled module without a lookup. Their types are in kinds.py,
which cannot be compiled."""

from typing import Final

from holdfast.resp.kinds import NullArray, Simple

NULL_ARRAY: Final = NullArray()
OK: Final = Simple(b"OK")
QUEUED: Final = Simple(b"QUEUED")
PONG: Final = Simple(b"PONG")
