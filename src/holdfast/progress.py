"""The progress of long work: the interface between code that works and code that shows its progress
to people. It imports nothing, and knows no terminal.
"""

from collections.abc import Callable

# Arguments: the name of the work, how much is done, how much there is (0: unknown), and the unit of
# both. The thread that works calls it often, so a function that shows something must limit itself.
# A new name means that the work before has ended.
Progress = Callable[[str, int, int, str], None]

# Units. Any other word is shown as it is.
BYTES = "bytes"
CHANGES = "changes"
KEYS = "keys"


def unseen(work: str, done: int, total: int, unit: str) -> None:
    """A Progress that shows nothing."""
