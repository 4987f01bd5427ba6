"""XCFGSET: for how long a stream remembers the idempotent ids of XADD, and how many of them."""

from functools import partial

from holdfast.commands.args import parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.errors import NO_SUCH_KEY, SYNTAX, CommandError
from holdfast.resp import OK, Reply
from holdfast.store.values import stream_producers
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_idempotence import LARGEST, LONGEST_S

NOTHING_TO_SET = CommandError("ERR At least one parameter must be specified")
# The reason is in streams.py: two servers could add the same message at once.
NOT_IDEMPOTENT = CommandError("ERR an active-active server has no idempotent IDs")

# For each word: the highest value, and its unit in Redis's message.
WORDS = {b"IDMP-DURATION": (LONGEST_S, "seconds"), b"IDMP-MAXSIZE": (LARGEST, "entries")}

stream_command = partial(command, group="stream", categories="stream", since="8.6.0")


@stream_command("xcfgset", -2, "write fast", one("RW update"))
def xcfgset(c: Context, argv: list[bytes]) -> Reply:
    """Set how many idempotent ids a stream keeps and for how long; new values drop all ids.

    XCFGSET key [IDMP-DURATION seconds] [IDMP-MAXSIZE count]
    """
    found = c.db.find_as(argv[1], Stream)
    if found is None:
        raise NO_SUCH_KEY
    stream = found[1]
    values: dict[bytes, int] = {}
    at = 2
    while at < len(argv):
        word = argv[at].upper()
        if word not in WORDS or at + 1 == len(argv):
            raise SYNTAX
        name = word.decode()
        if word in values:
            raise CommandError(f"ERR {name} specified multiple times")
        highest, unit = WORDS[word]
        values[word] = parse_int(argv[at + 1])
        if not 1 <= values[word] <= highest:
            raise CommandError(f"ERR {name} must be between 1 and {highest} {unit}")
        at += 2
    if not values:
        raise NOTHING_TO_SET
    keyspace = c.keyspace
    if not keyspace.takes_entry_ids:
        raise NOT_IDEMPOTENT
    stream_producers.begin(
        stream, keyspace.stream_idmp_duration_s, keyspace.stream_idmp_maxsize, keyspace
    )
    is_new = stream_producers.configure(
        stream, values.get(b"IDMP-DURATION"), values.get(b"IDMP-MAXSIZE"), keyspace
    )
    keyspace.dirty += is_new
    return OK
