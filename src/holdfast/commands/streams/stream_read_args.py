"""The arguments of XREAD and XREADGROUP."""

from holdfast.commands.args import (
    INT64_MAX,
    TIMEOUT_NEGATIVE,
    TIMEOUT_NOT_A_NUMBER,
    parse_int,
    parse_int_between,
)
from holdfast.commands.context import Context
from holdfast.commands.streams.stream_budget import Budget
from holdfast.errors import SYNTAX, CommandError

GROUP_ONLY_IN_XREADGROUP = CommandError(
    "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."
)
NOACK_ONLY_IN_XREADGROUP = CommandError(
    "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."
)
CLAIM_ONLY_IN_XREADGROUP = CommandError(
    "ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead."
)
MIN_IDLE_NOT_A_NUMBER = CommandError("ERR min-idle-time is not an integer or out of range")
MIN_IDLE_NEGATIVE = CommandError("ERR min-idle-time must be a positive integer")
MAXCOUNT_NOT_POSITIVE = CommandError("ERR MAXCOUNT must be a positive integer")
MAXSIZE_NOT_POSITIVE = CommandError("ERR MAXSIZE must be a positive integer")
MAXCOUNT_BELOW_COUNT = CommandError("ERR MAXCOUNT must be greater than or equal to COUNT")
UNBALANCED = CommandError(
    "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
)
NO_GROUP_OPTION = CommandError("ERR Missing GROUP option for XREADGROUP")


class ReadOptions:
    """CLAIM, MAXCOUNT and MAXSIZE; None: not given."""

    __slots__ = ("max_count", "max_size", "min_idle_ms")

    def __init__(self) -> None:
        self.min_idle_ms: int | None = None
        self.max_count: int | None = None
        self.max_size: int | None = None

    def parse(self, word: bytes, value: bytes, *, is_group: bool) -> None:
        if word == b"MAXCOUNT":
            self.max_count = parse_int_between(value, 1, INT64_MAX, MAXCOUNT_NOT_POSITIVE)
        elif word == b"MAXSIZE":
            self.max_size = parse_int_between(value, 1, INT64_MAX, MAXSIZE_NOT_POSITIVE)
        elif not is_group:
            raise CLAIM_ONLY_IN_XREADGROUP
        else:
            self.min_idle_ms = parse_int(value, MIN_IDLE_NOT_A_NUMBER)
            if self.min_idle_ms < 0:
                raise MIN_IDLE_NEGATIVE

    def budget(self) -> Budget:
        return Budget(self.max_count, self.max_size)


class Reading:
    """The parsed arguments. None means: for `most`, all entries; for `timeout_s`, do not wait; for
    `options`, none of them is given, which is the usual case."""

    __slots__ = ("consumer", "group", "ids", "most", "names", "no_ack", "options", "timeout_s")

    def __init__(self) -> None:
        self.group: bytes | None = None
        self.consumer = b""
        self.most: int | None = None
        self.timeout_s: float | None = None
        self.no_ack = False
        self.options: ReadOptions | None = None
        self.names: list[bytes] = []
        self.ids: list[bytes] = []

    def streams(self, c: Context) -> list[tuple[bytes, bytes]]:
        """The names and ids to read. As in Redis 7.0, a client that was woken reads only the stream
        that woke it."""
        pairs = [(self.names[at], self.ids[at]) for at in range(len(self.names))]
        woken_by = c.woken_by
        if woken_by is not None:
            return [pair for pair in pairs if pair[0] == woken_by][:1]
        return pairs


def parse_reading(c: Context, argv: list[bytes], *, is_group: bool) -> Reading:
    reading = Reading()
    at = 1
    while at < len(argv):
        word, more = argv[at], len(argv) - 1 - at
        if word != b"GROUP" and word != b"COUNT" and word != b"STREAMS":  # the usual spelling
            word = word.upper()
        if word == b"BLOCK" and more:
            if c.is_script:
                raise CommandError(
                    b"ERR %s command is not allowed with BLOCK option from scripts" % argv[0]
                )
            at += 1
            reading.timeout_s = _parse_timeout_s(argv[at])
        elif word == b"COUNT" and more:
            at += 1
            reading.most = max(parse_int(argv[at]), 0) or None
        elif word == b"STREAMS" and more:
            break
        elif word == b"GROUP" and more >= 2:
            if not is_group:
                raise GROUP_ONLY_IN_XREADGROUP
            reading.group, reading.consumer = argv[at + 1], argv[at + 2]
            at += 2
        elif word == b"NOACK":
            if not is_group:
                raise NOACK_ONLY_IN_XREADGROUP
            reading.no_ack = True
        elif word in (b"CLAIM", b"MAXCOUNT", b"MAXSIZE") and more:
            at += 1
            if reading.options is None:
                reading.options = ReadOptions()
            reading.options.parse(word, argv[at], is_group=is_group)
        else:
            raise SYNTAX
        at += 1
    else:
        raise SYNTAX
    streams = more >> 1
    if more & 1:
        raise UNBALANCED
    if is_group and reading.group is None:
        raise NO_GROUP_OPTION
    if reading.options is not None and reading.most is not None:
        max_count = reading.options.max_count
        if max_count is not None and max_count < reading.most:
            raise MAXCOUNT_BELOW_COUNT
    reading.names = argv[at + 1 : at + 1 + streams]
    reading.ids = argv[at + 1 + streams :]
    return reading


def _parse_timeout_s(text: bytes) -> float:
    milliseconds = parse_int(text, TIMEOUT_NOT_A_NUMBER)
    if milliseconds < 0:
        raise TIMEOUT_NEGATIVE
    return milliseconds / 1000
