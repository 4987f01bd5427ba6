"""The arguments of the commands in hash_expiry.py: fields, expiry times and conditions."""

from collections.abc import Callable

from holdfast.commands.args import EXPIRY_OPTIONS, INT64_MAX, parse_int, parse_int_between
from holdfast.commands.context import Context
from holdfast.errors import CommandError
from holdfast.resp.c_strings import c_string

TIME_NEGATIVE = CommandError("ERR invalid expire time, must be >= 0")
FIELDS_MISSING = CommandError(
    "ERR Mandatory argument FIELDS is missing or not at the right position"
)
NUMFIELDS_NOT_POSITIVE = CommandError("ERR Parameter `numFields` should be greater than 0")
NUMBER_NOT_POSITIVE = CommandError("ERR Number of fields must be a positive integer")
NUMFIELDS_WRONG = CommandError("ERR The `numfields` parameter must match the number of arguments")
NUMFIELDS_INVALID = CommandError("ERR invalid number of fields")
FIELDS_TWICE = CommandError("ERR FIELDS keyword specified multiple times")
TIME_MISSING = CommandError("ERR missing expire time")
TWO_CONDITIONS = CommandError("ERR Only one of FXX or FNX arguments can be specified")
NO_FIELDS = CommandError("ERR missing FIELDS argument")
FIELDS_CUT_OFF = CommandError("ERR FIELDS requires at least numfields and one field argument")
FIELDS_TOO_FEW = CommandError("ERR wrong number of arguments")
MANY_CONDITIONS = CommandError("ERR Multiple condition flags specified")

INT32_MAX = (1 << 31) - 1
LATEST_MS = (1 << 46) - 1

# Whether the new expiry of a field may replace the old one. None: the field has no expiry.
Condition = Callable[[int | None, int], bool]

CONDITIONS: dict[bytes, Condition] = {
    b"NX": lambda old, new: old is None,
    b"XX": lambda old, new: old is not None,
    b"GT": lambda old, new: old is not None and new > old,
    b"LT": lambda old, new: old is None or new < old,
}


def fields_at(argv: list[bytes], at: int) -> list[bytes]:
    """Parse `FIELDS numfields field [field ...]`, from `at` on. Returns the fields."""
    if argv[at].upper() != b"FIELDS":
        raise FIELDS_MISSING
    count = parse_int_between(argv[at + 1], 1, INT64_MAX, NUMBER_NOT_POSITIVE)
    if count != len(argv) - at - 2:
        raise NUMFIELDS_WRONG
    return argv[at + 2 :]


def expire_arguments(argv: list[bytes]) -> tuple[Condition | None, list[bytes]]:
    """The condition and the fields of HEXPIRE and its siblings. Since Redis 8.4 the condition may
    also follow the fields."""
    condition = None
    fields = None
    at = 3
    size = len(argv)
    words = set()
    while at < size:
        word = argv[at].upper()
        if word != b"FIELDS":
            condition = CONDITIONS.get(word)
            if condition is None:
                raise unknown_argument(argv[at])
            words.add(word)
            at += 1
            continue
        if fields is not None:
            raise FIELDS_TWICE
        if at + 2 >= size:
            raise FIELDS_CUT_OFF
        count = parse_int_between(argv[at + 1], 1, INT32_MAX, NUMFIELDS_NOT_POSITIVE)
        end = at + 2 + count
        if end > size:
            raise FIELDS_TOO_FEW
        fields = argv[at + 2 : end]
        at = end
    if fields is None:
        raise NO_FIELDS
    if len(words) > 1:
        raise MANY_CONDITIONS
    return condition, fields


def expires_at_ms_of(argv: list[bytes], text: bytes, base_ms: int, unit_ms: int) -> int:
    """The expiry that an argument names. 0 is allowed, and removes the field at once."""
    time = parse_int(text)
    if time < 0:
        raise TIME_NEGATIVE
    expires_at_ms = base_ms + time * unit_ms
    if expires_at_ms > LATEST_MS:
        raise CommandError(f"ERR invalid expire time in '{command_name(argv)}' command")
    return expires_at_ms


def command_name(argv: list[bytes]) -> str:
    return argv[0].decode("latin-1").lower()


def unknown_argument(word: bytes) -> CommandError:
    return CommandError(b"ERR unknown argument: " + c_string(word))


class FieldOptions:
    """The arguments of HGETEX or HSETEX after the key. Since Redis 8.4 they may come in any order,
    also after the fields."""

    def __init__(self, c: Context, argv: list[bytes], *, sets: bool) -> None:
        self.fields: list[bytes] | None = None  # of HSETEX, each followed by its value
        self.expires_at_ms: int | None = None
        self.keep_word = False  # PERSIST of HGETEX, KEEPTTL of HSETEX
        self.condition = b""  # FNX or FXX
        self._argv = argv
        self._sets = sets
        at = 2
        while at < len(argv):
            at = self._take(c, at)
        if self.fields is None:
            raise NO_FIELDS

    def _take(self, c: Context, at: int) -> int:
        """Read one option. Returns the position behind it."""
        argv = self._argv
        word = argv[at].upper()
        if word == b"FIELDS":
            return self._take_fields(at)
        keep_word = b"KEEPTTL" if self._sets else b"PERSIST"
        if word in EXPIRY_OPTIONS or word == keep_word:
            if self.expires_at_ms is not None or self.keep_word:
                raise CommandError(
                    f"ERR Only one of EX, PX, EXAT, PXAT or {keep_word.decode()} arguments"
                    " can be specified"
                )
            if word == keep_word:
                self.keep_word = True
                return at + 1
            if at + 1 == len(argv):
                raise TIME_MISSING
            unit_ms, is_absolute = EXPIRY_OPTIONS[word]
            base_ms = 0 if is_absolute else c.keyspace.now_ms
            self.expires_at_ms = expires_at_ms_of(argv, argv[at + 1], base_ms, unit_ms)
            return at + 2
        if self._sets and word in (b"FNX", b"FXX"):
            if self.condition:
                raise TWO_CONDITIONS
            self.condition = word
            return at + 1
        raise unknown_argument(argv[at])

    def _take_fields(self, at: int) -> int:
        argv = self._argv
        if self.fields is not None:
            raise FIELDS_TWICE
        width = 2 if self._sets else 1
        end = at + 2 + width
        if end <= len(argv):
            count = parse_int_between(argv[at + 1], 1, INT32_MAX, NUMFIELDS_INVALID)
            end = at + 2 + count * width
        if end > len(argv):
            name = command_name(argv)
            raise CommandError(f"ERR wrong number of arguments for '{name}' command")
        self.fields = argv[at + 2 : end]
        return end
