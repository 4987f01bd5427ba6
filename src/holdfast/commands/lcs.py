"""LCS: the longest common subsequence of two strings.

Redis fills a table with a 32-bit number for each pair of bytes, and then walks back through it.
Here a row of that table is one integer with a bit for each place where the length grows (Hyyrö's
bit-parallel algorithm). The largest tables that Redis allows then take a fraction of a second.
"""

from collections import deque
from collections.abc import Iterator

from holdfast.commands.args import Options
from holdfast.commands.context import Context
from holdfast.commands.table import command, many
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp import Reply

NOT_STRINGS = CommandError("ERR The specified keys must contain string values")
LENGTH_AND_INDEXES = CommandError(
    "ERR If you want both the length and indexes, please just use IDX."
)
TOO_LARGE = CommandError(
    "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
)
BYTES_PER_CELL = 4  # of Redis's table, whose size is limited

Run = tuple[int, int, int]  # its start in a, its start in b, its length


@command(
    "lcs",
    -3,
    "readonly",
    many("RO access", last=1),
    group="string",
    since="7.0.0",
    categories="string",
)
def lcs(c: Context, argv: list[bytes]) -> Reply:
    """The longest common subsequence of two strings, its length, or the positions of its parts.

    LCS key1 key2 [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]
    """
    keys = [c.db.read(name) for name in argv[1:3]]
    a, b = (b"" if key is None else key.value for key in keys)
    if type(a) is not bytes or type(b) is not bytes:
        raise NOT_STRINGS
    words: set[bytes] = set()
    min_length = 0
    options = Options(argv, 3)
    while options:
        word = options.word()
        if word == b"MINMATCHLEN":
            min_length = options.integer()
        elif word in (b"LEN", b"IDX", b"WITHMATCHLEN"):
            words.add(word)
        else:
            raise SYNTAX
    if {b"LEN", b"IDX"} <= words:
        raise LENGTH_AND_INDEXES
    if (len(a) + 1) * (len(b) + 1) * BYTES_PER_CELL > c.limits.proto_max_bulk_len:
        raise TOO_LARGE
    if b"LEN" in words:
        return _length(*sorted((a, b), key=len))
    runs = list(_runs(_matches_by_a(a, b) if len(a) <= len(b) else _matches_by_b(a, b)))
    if b"IDX" not in words:
        return b"".join(a[at : at + length] for at, _, length in reversed(runs))
    with_length = b"WITHMATCHLEN" in words
    return {
        b"matches": [
            [[at_a, at_a + length - 1], [at_b, at_b + length - 1], *[length] * with_length]
            for at_a, at_b, length in runs
            if length >= min_length
        ],
        b"len": sum(length for _, _, length in runs),
    }


def _masks(short: bytes, long: bytes) -> dict[int, int]:
    """For each byte of the short string, its indexes in the long one: bit p for index p."""
    backwards = long[::-1]
    zeros = b"0" * 256
    return {
        byte: int(backwards.translate(zeros[:byte] + b"1" + zeros[byte + 1 :]), 2)
        for byte in set(short)
    }


def _rows(short: bytes, long: bytes, masks: dict[int, int]) -> Iterator[int]:
    """One row for each byte of the short string. Bit p says that the longest common subsequence
    with long[: p + 1] is longer by one than that with long[:p]."""
    full = (1 << len(long)) - 1
    flat = full
    for byte in short:
        grows = flat & masks[byte]
        flat = ((flat + grows) | (flat - grows)) & full
        yield full ^ flat


def _length(short: bytes, long: bytes) -> int:
    last = deque(_rows(short, long, _masks(short, long)), maxlen=1)
    return last[0].bit_count() if last else 0


# The walk goes back from the end: i bytes of a and j bytes of b remain. If the last bytes are
# equal, they match. Otherwise one of them is dropped. As in Redis this is the last byte of a, if
# without it the common subsequence is longer than without the last byte of b; otherwise the last
# byte of b. Bytes of the longer string that can only be dropped are skipped together, so each step
# consumes a byte of the shorter string.


def _matches_by_a(a: bytes, b: bytes) -> Iterator[tuple[int, int]]:
    """The indexes of the matching bytes, from the end, if a is not longer than b."""
    masks = _masks(a, b)
    rows = list(_rows(a, b, masks))
    i, j = len(a), len(b)
    while i and j:
        i -= 1
        j = ((rows[i] | masks[a[i]]) & ((1 << j) - 1)).bit_length()
        if j and a[i] == b[j - 1]:
            j -= 1
            yield i, j


def _matches_by_b(a: bytes, b: bytes) -> Iterator[tuple[int, int]]:
    """The indexes of the matching bytes, from the end, if b is shorter than a."""
    masks = _masks(b, a)
    rows = [0, *_rows(b, a, masks)]
    i, j = len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1]:
            i -= 1
            j -= 1
            yield i, j
            continue
        left = (1 << i) - 1
        row = rows[j] & left
        if row.bit_length() < i and row.bit_count() > (rows[j - 1] & left).bit_count():
            i = (row | (masks[b[j - 1]] & left)).bit_length()
        else:
            j -= 1


def _runs(matches: Iterator[tuple[int, int]]) -> Iterator[Run]:
    """Join matches that are next to each other into runs."""
    start_a = start_b = length = 0
    for i, j in matches:
        if length and (i, j) != (start_a - 1, start_b - 1):
            yield start_a, start_b, length
            length = 0
        start_a, start_b, length = i, j, length + 1
    if length:
        yield start_a, start_b, length
