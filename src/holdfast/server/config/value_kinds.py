"""The kinds of configuration values: how each is parsed, shown and written to a file.

A kind turns the arguments of one directive into an immutable Python value and back. A bad argument
is a ValueError with the text of Redis. Nothing here knows which parameters exist.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.commands.zsets.zset_args import parse_score
from holdfast.errors import CommandError
from holdfast.resp.c_strings import c_string

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
ULONG_MAX = 2**64 - 1

_UNITS = {
    b"": 1,
    b"b": 1,
    b"k": 1000,
    b"kb": 1 << 10,
    b"m": 1000**2,
    b"mb": 1 << 20,
    b"g": 1000**3,
    b"gb": 1 << 30,
}
_WRONG_COUNT = "wrong number of arguments"


def integer(text: bytes) -> int | None:
    """A decimal integer as Redis reads it: no sign but a minus, no spaces, no zeros in
    front, 64 bits."""
    if not re.fullmatch(rb"0|-?[1-9][0-9]{0,18}", text):
        return None
    value = int(text)
    return value if -LONG_MAX - 1 <= value <= LONG_MAX else None


def memory(text: bytes) -> int | None:
    """A size such as 100mb. As in Redis, too large a number becomes the largest one, and too large
    a product wraps. A text without digits is zero."""
    found = re.fullmatch(rb"([0-9]{0,127})([a-z]{0,2})", c_string(text).lower())
    if found is None or found[2] not in _UNITS:
        return None
    return min(int(found[1] or b"0"), ULONG_MAX) * _UNITS[found[2]] & ULONG_MAX


def quoted(text: bytes) -> bytes:
    """`text` as one quoted argument of a configuration line."""
    escapes = {34: b'\\"', 92: b"\\\\", 10: b"\\n", 13: b"\\r", 9: b"\\t", 7: b"\\a", 8: b"\\b"}
    body = (
        escapes.get(byte) or (b"%c" % byte if 32 <= byte < 127 else b"\\x%02x" % byte)
        for byte in text
    )
    return b'"' + b"".join(body) + b'"'


class ValueKind:
    """How the values of a parameter are parsed, shown and written.

    `many`: a value has any number of arguments, which CONFIG SET gives as one string. `adds`: in a
    file, further lines add to the first one."""

    many = False
    adds = False

    def parse(self, args: Sequence[bytes], current: Any) -> Any:
        """The value of `args`. `current` is for kinds that change only a part of the value."""
        if len(args) != 1:
            raise ValueError(_WRONG_COUNT)
        return self.parse_one(args[0])

    def parse_one(self, text: bytes) -> Any:
        """The value of its only argument. Kinds with several arguments override `parse` instead."""
        raise NotImplementedError

    def show(self, value: Any) -> bytes:
        """The value as CONFIG GET shows it."""
        return str(value).encode("utf-8", "surrogateescape")

    def lines(self, value: Any) -> list[bytes]:
        """The text behind the name in a file, one entry for each line."""
        return [self.show(value)]


class Bool(ValueKind):
    def parse_one(self, text: bytes) -> bool:
        if text.lower() not in (b"yes", b"no"):
            raise ValueError("argument must be 'yes' or 'no'")
        return text.lower() == b"yes"

    def show(self, value: bool) -> bytes:
        return b"yes" if value else b"no"


class Int(ValueKind):
    """A value outside of low and high is an error. A value outside of `clamp` is moved into it
    without an error."""

    def __init__(
        self, low: int = 0, high: int = INT_MAX, clamp: tuple[int, int] | None = None
    ) -> None:
        self.low = low
        self.high = high
        self.clamp = clamp

    def parse_one(self, text: bytes) -> int:
        value = integer(text)
        if value is None:
            raise ValueError("argument couldn't be parsed into an integer")
        return self.checked(value)

    def checked(self, value: int) -> int:
        if not self.low <= value <= self.high:
            raise ValueError(f"argument must be between {self.low} and {self.high} inclusive")
        return value if self.clamp is None else max(self.clamp[0], min(value, self.clamp[1]))


class Octal(Int):
    def parse_one(self, text: bytes) -> int:
        if not re.fullmatch(rb"[0-7]{1,20}", text):
            raise ValueError("argument couldn't be parsed as an octal number")
        return self.checked(int(text, 8))

    def show(self, value: int) -> bytes:
        return b"%o" % value


class Memory(Int):
    def parse_one(self, text: bytes) -> int:
        value = memory(text)
        if value is None:
            raise ValueError("argument must be a memory value")
        return self.checked(value)

    def lines(self, value: int) -> list[bytes]:
        for unit in (b"gb", b"mb", b"kb"):
            if value and value % _UNITS[unit] == 0:
                return [b"%d%s" % (value // _UNITS[unit], unit)]
        return [b"%d" % value]


class MemoryOrPercent(Memory):
    """A percentage is kept as a negative number."""

    def parse_one(self, text: bytes) -> int:
        percent = integer(text[:-1]) if text.endswith(b"%") else None
        value = percent if percent is not None else memory(text)
        if value is None or value < 0:
            raise ValueError("argument must be a memory or percent value")
        if value > (LONG_MAX if percent is None else 100):
            raise ValueError("percentage argument must be less or equal to 100")
        return value if percent is None else -value

    def show(self, value: int) -> bytes:
        return b"%d" % value if value >= 0 else b"%d%%" % -value

    def lines(self, value: int) -> list[bytes]:
        return super().lines(value) if value >= 0 else [self.show(value)]


class Enum(ValueKind):
    """One of certain words. `same` maps an accepted word to the word that is kept."""

    def __init__(self, words: str, same: Mapping[str, str] | None = None) -> None:
        self.words = words
        self.same = same or {}

    def parse_one(self, text: bytes) -> str:
        word = text.decode("latin-1").lower()
        if word not in self.words.split():
            raise ValueError(
                "argument(s) must be one of the following: " + ", ".join(self.words.split())
            )
        return self.same.get(word, word)


class Flags(Enum):
    """Any number of certain words; the first word means none of the others."""

    many = True

    def parse(self, args: Sequence[bytes], current: object) -> tuple[str, ...]:
        given = {self.parse_one(arg) for arg in args}
        if {"save", "nosave"} <= given:
            raise ValueError("shutdown options SAVE and NOSAVE can't be used simultaneously")
        return tuple(word for word in self.words.split()[1:] if word in given)

    def show(self, value: tuple[str, ...]) -> bytes:
        return " ".join(value or self.words.split()[:1]).encode()


class Text(ValueKind):
    """`check` returns the error of a text, or None."""

    def __init__(self, check: Callable[[str], str | None] | None = None) -> None:
        self.check = check

    def parse_one(self, text: bytes) -> str:
        value = text.decode("utf-8", "surrogateescape")
        problem = self.check(value) if self.check else None
        if problem:
            raise ValueError(problem)
        return value

    def lines(self, value: Any) -> list[bytes]:
        return [quoted(self.show(value))]


class Secret(Text):
    """Bytes, because a password is compared with the bytes that a client sent."""

    def parse_one(self, text: bytes) -> Any:
        return text

    def show(self, value: bytes) -> bytes:
        return value


class Directory(Text):
    def parse_one(self, text: bytes) -> str:
        try:
            # Only an attempt to open a directory shows whether the server may enter it.
            os.close(os.open(text, os.O_RDONLY | os.O_DIRECTORY))
        except OSError as error:
            raise ValueError(os.strerror(error.errno or 0)) from None
        except ValueError:
            raise ValueError("No such file or directory") from None
        return os.path.realpath(os.fsdecode(text))


class Words(ValueKind):
    """Several words; a single empty word means no words."""

    many = True

    def __init__(self, most: int, too_many: str) -> None:
        self.most = most
        self.too_many = too_many

    def parse(self, args: Sequence[bytes], current: object) -> tuple[str, ...]:
        if len(args) > self.most:
            raise ValueError(self.too_many)
        if list(args) == [b""]:
            return ()
        return tuple(arg.decode("utf-8", "surrogateescape") for arg in args)

    def show(self, value: tuple[str, ...]) -> bytes:
        return " ".join(value).encode("utf-8", "surrogateescape")

    def lines(self, value: tuple[str, ...]) -> list[bytes]:
        return [self.show(value) or b'""']


class SavePoint(NamedTuple):
    seconds: int
    changes: int


class Save(ValueKind):
    many = adds = True

    def parse(self, args: Sequence[bytes], current: object) -> tuple[SavePoint, ...]:
        if list(args) == [b""]:
            return ()
        numbers = [integer(arg) for arg in args]
        points = []
        for seconds, changes in zip(numbers[::2], numbers[1::2], strict=False):
            if seconds is None or changes is None or seconds < 1 or changes < 0:
                raise ValueError("Invalid save parameters")
            points.append(SavePoint(seconds, changes))
        if len(numbers) % 2 or not numbers:
            raise ValueError("Invalid save parameters")
        return tuple(points)

    def show(self, value: tuple[SavePoint, ...]) -> bytes:
        return b" ".join(b"%d %d" % point for point in value)

    def lines(self, value: tuple[SavePoint, ...]) -> list[bytes]:
        return [b"%d %d" % point for point in value] or [b'""']


class BufferLimit(NamedTuple):
    hard_bytes: int
    soft_bytes: int
    soft_s: int


class BufferLimits(NamedTuple):
    normal: BufferLimit
    replica: BufferLimit
    pubsub: BufferLimit


class OutputLimits(ValueKind):
    """Limits by class of clients. A value changes the classes that it names, and no others."""

    many = True
    _CLASSES: Mapping[bytes, str] = {
        b"normal": "normal",
        b"slave": "replica",
        b"replica": "replica",
        b"pubsub": "pubsub",
    }

    def parse(self, args: Sequence[bytes], current: BufferLimits | None) -> BufferLimits:
        if list(args) == [b""]:
            args = []
        if len(args) % 4:
            raise ValueError("Wrong number of arguments in buffer limit configuration.")
        limits = current or BufferLimits(*[BufferLimit(0, 0, 0)] * 3)
        for at in range(0, len(args), 4):
            name = self._CLASSES.get(args[at].lower())
            if name is None:
                raise ValueError("Invalid client class specified in buffer limit configuration.")
            hard, soft, soft_s = memory(args[at + 1]), memory(args[at + 2]), integer(args[at + 3])
            if hard is None or soft is None or soft_s is None or soft_s < 0:
                raise ValueError(
                    "Error in hard, soft or soft_seconds setting in buffer limit configuration."
                )
            limits = limits._replace(**{name: BufferLimit(hard, soft, soft_s)})
        return limits

    def show(self, value: BufferLimits) -> bytes:
        return b" ".join(
            b"%s %d %d %d" % (name, *limit)
            for name, limit in zip((b"normal", b"slave", b"pubsub"), value, strict=True)
        )

    def lines(self, value: BufferLimits) -> list[bytes]:
        return [
            b"%s %d %d %d" % (name, *limit)
            for name, limit in zip((b"normal", b"replica", b"pubsub"), value, strict=True)
        ]


class KeyspaceEvents(ValueKind):
    """The set of event classes, with A replaced by its classes. In Redis 8.8, A includes the class
    `a` (arrays), too. No such events happen here, so a value is shown as by earlier versions."""

    _ALL = "g$lshzxetd"

    def parse_one(self, text: bytes) -> frozenset[str]:
        events = text.decode("latin-1")
        if set(events) - set("A" + self._ALL + "KEmnocaSTIV"):
            raise ValueError("Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'.")
        return frozenset(events.replace("A", self._ALL))

    def show(self, value: frozenset[str]) -> bytes:
        everything = value >= set(self._ALL)
        classes = "A" if everything else "".join(c for c in self._ALL + "anoc" if c in value)
        return (classes + "".join(c for c in "KEmSTIV" if c in value)).encode()

    def lines(self, value: frozenset[str]) -> list[bytes]:
        return [quoted(self.show(value))]


class OomScores(ValueKind):
    many = True

    def parse(self, args: Sequence[bytes], current: object) -> tuple[int, ...]:
        if len(args) != 3:
            raise ValueError(_WRONG_COUNT)
        scores = [integer(arg) for arg in args]
        if any(score is None or not -2000 <= score <= 2000 for score in scores):
            raise ValueError(
                "Invalid oom-score-adj-values, elements must be between -2000 and 2000."
            )
        return tuple(score for score in scores if score is not None)

    def show(self, value: tuple[int, ...]) -> bytes:
        return b" ".join(b"%d" % score for score in value)


class Percentiles(ValueKind):
    many = True

    def parse(self, args: Sequence[bytes], current: object) -> tuple[float, ...]:
        if list(args) == [b""]:
            return ()
        values = []
        for arg in args:
            try:
                values.append(parse_score(arg))
            except CommandError:
                raise ValueError("Invalid latency-tracking-info-percentiles parameters") from None
            if not 0 <= values[-1] <= 100:
                raise ValueError(
                    "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"
                )
        return tuple(values)

    def show(self, value: tuple[float, ...]) -> bytes:
        return b" ".join((b"%f" % number).rstrip(b"0").rstrip(b".") for number in value)

    def lines(self, value: tuple[float, ...]) -> list[bytes]:
        return [self.show(value) or b'""']


class ReplicaOf(Words):
    def parse(self, args: Sequence[bytes], current: object) -> tuple[str, ...]:
        if list(args) == [b""]:
            return ()
        if len(args) != 2:
            raise ValueError(_WRONG_COUNT)
        if [arg.lower() for arg in args] == [b"no", b"one"]:
            return ()
        port = integer(args[1])
        if port is None or not 0 <= port <= 65535:
            raise ValueError("Invalid master port")
        return super().parse(args, current)


class KeptLines(ValueKind):
    """Lines that are kept unchanged and in order, for the code that parses them."""

    many = adds = True

    def __init__(self, fewest: int, most: int) -> None:
        self.fewest = fewest
        self.most = most

    def parse(self, args: Sequence[bytes], current: object) -> tuple[tuple[bytes, ...], ...]:
        if not self.fewest <= len(args) <= self.most:
            raise ValueError(_WRONG_COUNT)
        return (tuple(args),)

    def show(self, value: tuple[tuple[bytes, ...], ...]) -> bytes:
        return b"\n".join(self.lines(value))

    def lines(self, value: tuple[tuple[bytes, ...], ...]) -> list[bytes]:
        return [b" ".join(quoted(word) for word in words) for words in value]
