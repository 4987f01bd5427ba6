"""The filters of CLIENT LIST and CLIENT KILL: those of Redis, and those of Valkey 9."""

from collections.abc import Callable

from holdfast.commands.args import INT64_MAX, is_int, parse_int, parse_int_between
from holdfast.errors import SYNTAX, CommandError
from holdfast.resp.c_strings import c_string
from holdfast.server.core.engine import Engine
from holdfast.server.features.client_line import flag_letters
from holdfast.server.sessions.session import Session

NOT_POSITIVE_ID = CommandError("ERR client-id should be greater than 0")

CLIENT_TYPES = {
    b"normal": "normal",
    b"slave": "replica",
    b"replica": "replica",
    b"pubsub": "pubsub",
    b"master": "master",
}
KNOWN_FLAGS = set(b"AbBcdeItNOPRSTuUxMrigE")  # letters that CLIENT LIST of Valkey may show
KNOWN_CAPABILITIES = set(b"r")

Test = Callable[[Session], bool]


class ClientFilter:
    """The filters of one command. If an option is given twice, the last one counts."""

    def __init__(self, options: list[bytes], engine: Engine, *, skips_me: bool) -> None:
        self._engine = engine
        self._tests: dict[bytes, Test] = {}
        self._skips_me = skips_me
        at = 0
        while at < len(options):
            if at + 1 == len(options):
                raise SYNTAX
            at = self._take(options, at)

    def lets_pass(self, other: Session, me: Session) -> bool:
        """Whether a session passes all filters of the session that asks."""
        if self._skips_me and other is me:
            return False
        return all(test(other) for test in self._tests.values())

    def _take(self, options: list[bytes], at: int) -> int:
        """Read one option. Returns the position behind it."""
        option, value = options[at].upper(), options[at + 1]
        if option == b"SKIPME" and value.lower() in (b"yes", b"no"):
            self._skips_me = value.lower() == b"yes"
            return at + 2
        name = option.removeprefix(b"NOT-")
        is_negated = name != option
        if name not in FILTERS or (is_negated and name in (b"MAXAGE", b"IDLE")):
            raise SYNTAX
        end = at + 2
        if name == b"ID":
            if is_negated and not is_int(value):
                raise SYNTAX
            while end < len(options) and is_int(options[end]):
                end += 1
        test = FILTERS[name](self._engine, option, options[at + 1 : end])
        self._tests[option] = (lambda session: not test(session)) if is_negated else test
        return end


# -- each filter: from its option, with NOT- or without, and its values to a test of a session ---


def _id(engine: Engine, option: bytes, values: list[bytes]) -> Test:
    ids = {parse_int_between(value, 1, INT64_MAX, NOT_POSITIVE_ID) for value in values}
    return lambda session: session.id in ids


def _type(engine: Engine, option: bytes, values: list[bytes]) -> Test:
    kind = CLIENT_TYPES.get(values[0].lower())
    if kind is None:
        raise CommandError(b"ERR Unknown client type '%s'" % c_string(values[0]))
    return lambda session: session.kind == kind


def _user(engine: Engine, option: bytes, values: list[bytes]) -> Test:
    user = engine.users.by_name.get(values[0])
    if user is None:
        raise CommandError(b"ERR No such user '%s'" % values[0])
    return lambda session: session.user is user


def _db(engine: Engine, option: bytes, values: list[bytes]) -> Test:
    index = parse_int(values[0], CommandError(b"ERR %b is not an integer or out of range" % option))
    last = len(engine.keyspace.databases) - 1
    if not 0 <= index <= last:
        raise CommandError(b"ERR %b number should be between 0 and %d" % (option, last))
    return lambda session: session.db.index == index


def _flags(engine: Engine, option: bytes, values: list[bytes]) -> Test:
    letters = set(values[0])
    if not letters <= KNOWN_FLAGS:
        raise _unknown(b"flags", option, values[0])

    def has_all(session: Session) -> bool:
        shown = flag_letters(session, engine.tracking.get(session)) or "N"
        return letters <= set(shown.encode())

    return has_all


def _capa(engine: Engine, option: bytes, values: list[bytes]) -> Test:
    letters = set(values[0])
    if not letters <= KNOWN_CAPABILITIES:
        raise _unknown(b"capa", option, values[0])
    return lambda session: letters <= set(session.capabilities.encode())


def _unknown(what: bytes, option: bytes, letters: bytes) -> CommandError:
    which = option if option.startswith(b"NOT-") else b"provided"
    return CommandError(b"ERR Unknown %b found in the %b filter: %b" % (what, which, letters))


def _seconds(name: str, measured: Callable[[Session], int]) -> Callable[..., Test]:
    """A filter for sessions for which this time is at least as long as the value."""

    def make(engine: Engine, option: bytes, values: list[bytes]) -> Test:
        least = parse_int(values[0], CommandError(f"ERR {name} is not an integer or out of range"))
        if least <= 0:
            raise CommandError(f"ERR {name} should be greater than 0")
        return lambda session: measured(session) >= least

    return make


def _text(shown: Callable[[Session], bytes]) -> Callable[..., Test]:
    """A filter for sessions for which this text is the value. As in Valkey, a client without a name
    has no name, not an empty one: CLIENT KILL NAME "" ends no client."""
    return lambda engine, option, values: lambda session: shown(session) == values[0] != b""


FILTERS: dict[bytes, Callable[[Engine, bytes, list[bytes]], Test]] = {
    b"ID": _id,
    b"TYPE": _type,
    b"USER": _user,
    b"DB": _db,
    b"FLAGS": _flags,
    b"CAPA": _capa,
    b"MAXAGE": _seconds("maxage", lambda session: session.age_s),
    b"IDLE": _seconds("idle", lambda session: session.idle_s),
    b"ADDR": _text(lambda session: session.address.encode("latin-1")),
    b"LADDR": _text(lambda session: session.local_address.encode("latin-1")),
    b"IP": _text(lambda session: session.address.rpartition(":")[0].encode("latin-1")),
    b"NAME": _text(lambda session: session.name),
    b"LIB-NAME": _text(lambda session: session.lib_name),
    b"LIB-VER": _text(lambda session: session.lib_ver),
}
