"""Kinds of events that a database announces: the letters of notify-keyspace-events."""

from typing import Final

GENERIC: Final = 1
STRING: Final = 2
LIST: Final = 4
SET: Final = 8
HASH: Final = 16
ZSET: Final = 32
STREAM: Final = 64
EXPIRED: Final = 128
EVICTED: Final = 256
NEW: Final = 512
MISS: Final = 1024
OVERWRITTEN: Final = 2048
TYPE_CHANGED: Final = 4096
SUBKEYS: Final = 8192  # no event: notifications also name the fields
