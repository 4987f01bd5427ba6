"""How far a long piece of work has come: the interface between code that works and code that shows
it to people. It imports nothing, and knows no terminal.
"""

from collections.abc import Callable

# The work, how much of it is done, how much there is (0: unknown), and the unit of both. Called
# often, from the thread that works: a callee that shows something limits that itself. Work that
# has another name follows the work before it.
Progress = Callable[[str, int, int, str], None]

# Units. Any other word is shown as it is.
BYTES = "bytes"
CHANGES = "changes"
KEYS = "keys"


def unseen(work: str, done: int, total: int, unit: str) -> None:
    """Shows nothing."""
