"""The allowed differences from redis-server: the entries of docs/compatibility.md that show in
replies.

`test_compatibility.py` shows every entry at work, and that both lists have the same entries.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Lines of replies that may be ours where redis-server has another, as regular expressions."""

    id: str  # the heading in docs/compatibility.md
    commands: frozenset[str]
    ours: bytes
    theirs: bytes


BLOCKING = frozenset(
    {"blpop", "brpop", "blmove", "brpoplpush", "blmpop", "bzpopmin", "bzpopmax", "bzmpop"}
)

DIFFERENCES = (
    Difference(
        "blocking-null",
        frozenset({"blpop", "brpop", "bzpopmin", "bzpopmax"}),
        rb"\$-1",
        rb"\*-1",
    ),
    Difference(
        "blocking-timeout-text",
        BLOCKING,
        b"-ERR timeout is not an integer or out of range",
        b"-ERR timeout is not a float or out of range|-ERR timeout is negative",
    ),
    Difference(
        "string-encoding", frozenset({"object|encoding"}), rb"embstr|int|\$\d", rb"raw|embstr|\$\d"
    ),
    Difference("string-encoding", frozenset({"object|refcount"}), b":2147483647", b":1"),
    Difference("string-encoding", frozenset({"object|refcount"}), b":1", b":2"),
    Difference(
        "collection-encoding",
        frozenset({"object|encoding"}),
        rb"listpack|intset|\$\d",
        rb"hashtable|skiplist|\$\d",
    ),
)


def is_allowed(command: str, ours: bytes, theirs: bytes) -> bool:
    return any(
        command in difference.commands
        and re.fullmatch(difference.ours, ours)
        and re.fullmatch(difference.theirs, theirs)
        for difference in DIFFERENCES
    )
