"""`holdfast`, but it folds and checkpoints all the time, in tiny steps, and has small chunks.

So that a crash at a random moment finds it in the middle of that, and not once in an hour.
"""

import sys

from holdfast.cli.main import main
from holdfast.server import cron, turn
from holdfast.store import chunks, fold, fold_rows, journal

fold.SLICE_ROWS = 5
fold_rows.SORTED_ROWS = 20
fold.PASS_OPS = 200
turn.CHECKPOINT_PAGES = 60
cron.IDLE_FOLD_AFTER_S = 0.0
chunks.CHUNK = 8
journal.LARGEST_ROW = 600  # so that many a batch takes several rows

if __name__ == "__main__":
    sys.exit(main())
