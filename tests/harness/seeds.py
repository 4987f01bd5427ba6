"""Seeds of random tests.

`make test` derives each seed from the name of its test, so one commit always has the same result:
no change fails because of a history that is unrelated to it. `make faults` draws new seeds, because
it looks for new histories. HOLDFAST_SEED is a number, which replays a failure, or `new`.
"""

import os
import random
import zlib

NEW = "new"


def seed_of(name: str) -> int:
    """The seed of the test of this name."""
    given = os.environ.get("HOLDFAST_SEED", "")
    if given == NEW:
        seed = random.SystemRandom().getrandbits(32)
    else:
        seed = int(given) if given else zlib.crc32(name.encode())
    print(f"HOLDFAST_SEED={seed}")  # noqa: T201 - pytest captures it and shows it on failure
    return seed
