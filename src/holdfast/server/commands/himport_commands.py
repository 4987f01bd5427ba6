"""HIMPORT: many hashes with the same fields. A client names the fields once, then sends values.

The names are kept in the session, so the handlers need the whole session.
"""

from functools import partial

from holdfast.commands.table import command, container, one
from holdfast.errors import CommandError
from holdfast.resp import OK, Reply
from holdfast.server.sessions.session import Session
from holdfast.store.memory.events import HASH
from holdfast.store.values.hash import Hash

DUPLICATE_FIELD = CommandError("ERR duplicate field name in fieldset")
NO_SUCH_FIELDSET = CommandError("ERR no such fieldset")
VALUES_MISMATCH = CommandError("ERR value count does not match fieldset field count")

EVERYWHERE = ("request_policy:all_shards",)

importing = partial(command, group="hash", categories="hash", since="8.10.0")
container(
    "himport",
    -2,
    "",
    "Create hashes that have the same fields.",
    group="hash",
    since="8.10.0",
    categories="hash",
)


@importing("himport|prepare", -4, "denyoom", tips=EVERYWHERE)
def prepare(session: Session, argv: list[bytes]) -> Reply:
    """Name a list of fields, for this connection.

    HIMPORT PREPARE fieldset-name field [field ...]
    """
    fields = argv[3:]
    if len(set(fields)) < len(fields):
        raise DUPLICATE_FIELD
    session.keep_fieldset(argv[2], fields)
    return OK


@importing("himport|set", -5, "write denyoom", one("OW update", 2))
def set_(session: Session, argv: list[bytes]) -> Reply:
    """Create a hash with the fields of a list and these values; a hash that exists is replaced.

    HIMPORT SET key fieldset-name value [value ...]
    """
    name, values = argv[2], argv[4:]
    fields = session.fieldsets.get(argv[3])
    if fields is None:
        raise NO_SUCH_FIELDSET
    if len(fields) != len(values):
        raise VALUES_MISMATCH
    session.db.find_as(name, Hash)  # another type is an error
    value = session.db.replace_as(name, Hash)
    for field, text in zip(fields, values, strict=True):
        value.set(field, text, session.keyspace)
    session.db.signal(name, b"hset", HASH)
    if session.db.tells_fields:
        session.db.tell_fields(name, b"hset", fields)
    return OK


@importing("himport|discard", 3, "", tips=EVERYWHERE)
def discard(session: Session, argv: list[bytes]) -> Reply:
    """Forget a list of fields; return 1 if it existed.

    HIMPORT DISCARD fieldset-name
    """
    return int(session.drop_fieldset(argv[2]))


@importing("himport|discardall", 2, "", tips=EVERYWHERE)
def discardall(session: Session, argv: list[bytes]) -> Reply:
    """Forget all lists of fields; return how many there were.

    HIMPORT DISCARDALL
    """
    count = len(session.fieldsets)
    session.drop_fieldsets()
    return count
