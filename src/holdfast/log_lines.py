"""The levels of the log, and its lines. Each of Redis's four levels is a level of `logging`."""

import logging

VERBOSE = 15  # between DEBUG and INFO

# The values of the parameter `loglevel`.
LEVELS = {
    "debug": logging.DEBUG,
    "verbose": VERBOSE,
    "notice": logging.INFO,
    "warning": logging.WARNING,
}
# The names of levels in the log. With `loglevel warning` the log has the last three.
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
