"""The levels of the log and its lines. Redis's four levels are levels of Python's logging here."""

import logging

VERBOSE = 15  # between DEBUG and INFO

# What `loglevel` means.
LEVELS = {
    "debug": logging.DEBUG,
    "verbose": VERBOSE,
    "notice": logging.INFO,
    "warning": logging.WARNING,
}
# How the log names a level. `loglevel warning` lets the last three pass.
NAMES = {level: name for name, level in LEVELS.items()} | {
    logging.ERROR: "error",
    logging.CRITICAL: "critical",
}


def one_line(text: str) -> str:
    """Line ends and control characters as escapes, so that no value looks like another line."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
