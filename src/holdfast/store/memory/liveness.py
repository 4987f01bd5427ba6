"""The one predicate of expiry, for keys in memory, packed keys and rows of the file.

It imports nothing, so that each module may ask it. Only the table of packed keys in C has the rule
once more (_packed_keys.c).
"""


def is_live(expires_at_ms: int | None, now_ms: int) -> bool:
    return expires_at_ms is None or expires_at_ms > now_ms
