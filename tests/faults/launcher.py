"""`holdfast`, but it folds and checkpoints all the time, in tiny steps, has small chunks, and takes
few elements for many.

So that a crash at a random moment finds it in the middle of that, and not once in an hour.
"""

import sys

from holdfast.cli.main import main
from holdfast.server.core import turn
from holdfast.store.change import fold_state
from holdfast.store.file import journal
from holdfast.store.fold import collect, fold, pending_rows
from holdfast.store.values import insertion_order, list_chunks

fold.SLICE_ROWS = 5
pending_rows.SORTED_ROWS = 20
fold.PASS_OPS = 200
turn.CHECKPOINT_PAGES = 60
list_chunks.CHUNK = 8
vars(fold_state)["LARGE"] = 5
vars(insertion_order)["MOST_WHOLE"] = vars(collect)["MOST_WHOLE"] = 3
journal.LARGEST_ROW = 600  # so that many a batch takes several rows

if __name__ == "__main__":
    sys.exit(main([*sys.argv[1:], "--fold-age-ms", "0"]))
