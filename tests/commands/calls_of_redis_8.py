"""Random calls of the commands and options that came after Redis 7, many of them a little wrong.

Options come in every order, counts do not fit, numbers are huge, negative or no numbers, keys have
other types, and names are no UTF-8.
"""

import random
import re
from collections.abc import Callable, Sequence

Argv = list[bytes]

KEYS = [*b"s s2 n l l2 h h2 set set2 z x x2 missing".split(), b"\xff\x00k", b""]
NUMBERS = [
    *(b"0", b"1", b"2", b"-1", b"100", b"65536", b"9223372036854775807", b"-9223372036854775808"),
    *(b"9223372036854775808", b"18446744073709551615", b"1.5", b"nan", b"inf", b"1e3"),
    *(b"", b"abc", b" 1", b"+1", b"01", b"\xff"),
]
FIELDS = [b"a", b"b", b"c", b"f\xff", b"", b"FIELDS", b"EX", b"IDS"]
VALUES = [b"v", b"1", b"10", b"", b"\xff\xfe", b"abc", b"x" * 200]
IDS = b"1-1 1-1 1-2 1-2 2-1 2-1 1 5-0 0 $ x-y 18446744073709551615-18446744073709551615".split()
GROUPS, CONSUMERS, FIELDSETS = [b"g", b"g2", b"nope"], [b"c", b"c2", b""], [b"fs", b"fs2"]
REFERENCES = [b"KEEPREF", b"DELREF", b"ACKED"]
DIGESTS = [b"0" * 16, b"f" * 16, b"zz"]
SIDES = [b"LEFT", b"RIGHT", b"x"]

FILL = tuple(
    line.split()
    for line in (
        *("SET s v", "SET s2 abc", "SET n 10", "RPUSH l a b c d e f", "RPUSH l2 x"),
        *("HSET h a 1 b 2 c 3", "HSET h2 a x", "SADD set a b c", "SADD set2 b c d"),
        *("ZADD z 1 a 2 b", "XADD x 1-1 a 1", "XADD x 1-2 b 2", "XADD x 2-1 c 3"),
        *("XADD x2 1-1 a 1", "XGROUP CREATE x g 0", "XGROUP CREATE x g2 0"),
        *("XGROUP CREATE x2 g 0", "XREADGROUP GROUP g c COUNT 2 STREAMS x >"),
        *("GEOADD geo 5 5 p 1 1 q 30 30 w", "HIMPORT PREPARE fs a b"),
    )
)


class Calls:
    """`expires`: keys and fields may get an expiry, so what they hold depends on the time."""

    def __init__(self, rng: random.Random, *, expires: bool = True) -> None:
        self._rng = rng
        self._expires = expires

    def next(self) -> Argv:
        rng = self._rng
        name = rng.choice(tuple(COMMANDS))
        argv = [*name.encode().upper().split(), *COMMANDS[name](self)]
        mistake = rng.random()
        at = rng.randrange(1, len(argv) + 1)
        if mistake < 0.05:
            del argv[at:]
        elif mistake < 0.1:
            argv.insert(at, rng.choice(NUMBERS + FIELDS))
        elif mistake < 0.15:
            argv[at:] = reversed(argv[at:])
        return argv

    # -- parts --------------------------------------------------------------------------------

    def one(self, pool: Sequence[bytes]) -> bytes:
        return self._rng.choice(pool)

    def some(self, pool: Sequence[bytes]) -> Argv:
        return self._rng.choices(pool, k=self._rng.randint(1, 3))

    def key(self, kind: str = "") -> bytes:
        """Mostly one of the type."""
        right = [name for name in KEYS if kind and re.fullmatch(rb"%b2?" % kind.encode(), name)]
        return self.one(right if right and self._rng.random() < 0.85 else KEYS)

    def keys(self, kind: str) -> Argv:
        return [self.key(kind) for _ in range(self._rng.randint(1, 3))]

    @property
    def number(self) -> bytes:
        return self.one(NUMBERS if self._rng.random() < 0.3 else (b"1", b"2", b"3", b"100"))

    def counted(self, items: Argv, word: bytes | None = None, width: int = 1) -> Argv:
        """The items behind their number, which is wrong at times."""
        right = b"%d" % (len(items) // width)
        count = right if self._rng.random() < 0.85 else self.number
        return [count, *items] if word is None else [word, count, *items]

    def maybe(self, *words: bytes) -> Argv:
        return list(words) if self._rng.random() < 0.4 else []

    def options(self, *options: Argv) -> Argv:
        """In any order."""
        shuffled = list(options)
        self._rng.shuffle(shuffled)
        return [word for option in shuffled for word in option]

    def expiry(self) -> Argv:
        word = self.one((b"EX", b"PX", b"EXAT", b"PXAT", b"PERSIST", b"KEEPTTL"))
        if word in (b"PERSIST", b"KEEPTTL"):
            return self.maybe(word)
        time = self.one((b"100", b"1000", b"33177117420", b"33177117420000", self.number))
        return self.maybe(word, time) if self._expires else []

    def condition(self) -> Argv:
        value, digest = self.one(VALUES), self.one(DIGESTS)
        words = [[b"IFEQ", value], [b"IFNE", value], [b"IFDEQ", digest], [b"IFDNE", digest]]
        return self._rng.choice([*words, [b"NX"], [b"XX"], []])

    def pairs(self, names: Sequence[bytes]) -> Argv:
        return [word for name in self.some(names) for word in (name, self.one(VALUES))]

    def ids(self) -> Argv:
        return self.counted(self.some(IDS), b"IDS")

    def trim(self) -> Argv:
        how = self.maybe(self.one((b"~", b"=")))
        limit = self.maybe(b"LIMIT", self.number)
        return [self.one((b"MAXLEN", b"MINID")), *how, self.number, *limit]

    def streams(self) -> Argv:
        words = self._rng.choice([b"x >", b"x 0", b"x x2 > >", b"x x2 0 0", b"x x2 >", b"l 0"])
        return [b"STREAMS", *words.split()]


COMMANDS: dict[str, Callable[[Calls], Argv]] = {
    "hsetex": lambda c: [
        c.key("h"),
        *c.options(
            c.maybe(c.one((b"FNX", b"FXX"))),
            c.expiry(),
            c.counted(c.pairs(FIELDS), b"FIELDS", 2),
        ),
    ],
    "hgetex": lambda c: [c.key("h"), *c.options(c.expiry(), c.counted(c.some(FIELDS), b"FIELDS"))],
    "hgetdel": lambda c: [c.key("h"), *c.counted(c.some(FIELDS), b"FIELDS")],
    "xdelex": lambda c: [c.key("x"), *c.options(c.maybe(c.one(REFERENCES)), c.ids())],
    "xackdel": lambda c: [
        *(c.key("x"), c.one(GROUPS)),
        *c.options(c.maybe(c.one(REFERENCES)), c.ids()),
    ],
    "xnack": lambda c: [
        *(c.key("x"), c.one(GROUPS), c.one((b"SILENT", b"FAIL", b"FATAL", b"x"))),
        *c.options(c.ids(), c.maybe(b"RETRYCOUNT", c.number), c.maybe(b"FORCE")),
    ],
    "xadd": lambda c: [
        c.key("x"),
        *c.options(
            c.maybe(b"NOMKSTREAM"),
            c.maybe(*c.trim()),
            c.maybe(c.one(REFERENCES)),
            c.maybe(b"IDMP", b"p", c.one((b"1", b"2"))),
        ),
        *(c.one([b"*", b"*", *IDS]), *c.pairs(FIELDS)),
    ],
    "xtrim": lambda c: [c.key("x"), *c.trim(), *c.maybe(c.one(REFERENCES))],
    "xcfgset": lambda c: [
        c.key("x"),
        *c.options(c.maybe(b"IDMP-DURATION", c.number), c.maybe(b"IDMP-MAXSIZE", c.number)),
    ],
    "xreadgroup": lambda c: [
        *(b"GROUP", c.one(GROUPS), c.one(CONSUMERS)),
        *c.options(
            c.maybe(b"COUNT", c.number),
            c.maybe(b"CLAIM", c.number),
            c.maybe(b"NOACK"),
            c.maybe(b"MAXCOUNT", c.number),
            c.maybe(b"MAXSIZE", c.number),
        ),
        *c.streams(),
    ],
    "xread": lambda c: [
        *c.options(c.maybe(b"MAXCOUNT", c.number), c.maybe(b"MAXSIZE", c.number)),
        *c.streams(),
    ],
    "xinfo stream": lambda c: [c.key("x"), *c.maybe(b"FULL", *c.maybe(b"COUNT", c.number))],
    "set": lambda c: [
        *(c.key("s"), c.one(VALUES)),
        *c.options(c.condition(), c.maybe(b"GET"), c.expiry()),
    ],
    "delex": lambda c: [c.key("s"), *c.condition()],
    "delifeq": lambda c: [c.key("s"), c.one(VALUES)],
    "digest": lambda c: [c.key("s")],
    "msetex": lambda c: [
        *c.counted(c.pairs(KEYS), width=2),
        *c.options(c.maybe(c.one((b"NX", b"XX"))), c.expiry()),
    ],
    "increx": lambda c: [
        c.key("n"),
        *c.options(
            c.maybe(c.one((b"BYINT", b"BYFLOAT")), c.number),
            c.maybe(b"LBOUND", c.number),
            c.maybe(b"UBOUND", c.number),
            c.maybe(b"SATURATE"),
            c.maybe(b"ENX"),
            c.expiry(),
        ),
    ],
    "bitop": lambda c: [c.one((b"DIFF", b"DIFF1", b"ANDOR", b"ONE")), c.key("s"), *c.keys("s")],
    "zunion": lambda c: [
        *c.counted([b"z", c.key("z")]),
        *c.options(
            c.maybe(b"AGGREGATE", c.one((b"COUNT", b"SUM", b"x"))),
            c.maybe(b"WEIGHTS", c.number, c.number),
            c.maybe(b"WITHSCORES"),
        ),
    ],
    "zinterstore": lambda c: [
        c.key("z"),
        *c.counted([b"z", c.key("z")]),
        *c.maybe(b"AGGREGATE", b"COUNT"),
    ],
    "sunioncard": lambda c: [
        *c.counted(c.keys("set")),
        *c.options(c.maybe(b"LIMIT", c.number), c.maybe(b"APPROX")),
    ],
    "sdiffcard": lambda c: [*c.counted(c.keys("set")), *c.maybe(b"LIMIT", c.number)],
    "lmovem": lambda c: [
        *(c.key("l"), c.key("l"), c.one(SIDES), c.one(SIDES)),
        *c.maybe(c.one((b"COUNT", b"EXACTLY")), c.number, c.one((b"OBO", b"BULK", b"x"))),
    ],
    "himport prepare": lambda c: [c.one(FIELDSETS), *c.some(FIELDS)],
    "himport set": lambda c: [c.key("h"), c.one(FIELDSETS), *c.some(VALUES)],
    "himport discard": lambda c: [c.one(FIELDSETS)],
    "hotkeys start": lambda c: c.options(
        c.counted(c.some((b"CPU", b"NET")), b"METRICS"),
        c.maybe(b"COUNT", c.number),
        c.maybe(b"DURATION", c.number),
        c.maybe(b"SAMPLE", c.number),
    ),
    "hotkeys get": lambda c: [],
    "hotkeys stop": lambda c: [],
    "geosearch": lambda c: [
        c.one([b"geo", c.key()]),
        *c.options(
            c.counted([c.one((b"0", b"9", b"20", b"-5")) for _ in range(6)], b"BYPOLYGON", 2),
            c.maybe(b"COUNT", c.number),
            c.maybe(b"WITHDIST"),
        ),
    ],
    "commandlog get": lambda c: [c.number, c.one((b"slow", b"large-request", b"x"))],
}
