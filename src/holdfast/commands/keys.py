"""Commands on keys of any type, and on whole databases. Expiry is in key_expiry.py, OBJECT in
object.py."""

from functools import partial

from holdfast.commands.args import Options, ScanOptions, parse_cursor, parse_int, parse_pattern
from holdfast.commands.context import Context
from holdfast.commands.table import command, many, one
from holdfast.errors import NO_SUCH_KEY, SYNTAX, CommandError
from holdfast.resp import OK, Reply, Simple
from holdfast.store.memory import scanning
from holdfast.store.memory.database import Database
from holdfast.store.memory.events import GENERIC

SAME_OBJECT = CommandError("ERR source and destination objects are the same")
NO_SUCH_DATABASE = CommandError("ERR DB index is out of range")
BEYOND_INT = CommandError(
    "ERR value is out of range, value must between -2147483648 and 2147483647"
)
MOST_REMOVED_AT_ONCE = 1000

generic = partial(command, group="generic", categories="keyspace")
server = partial(command, group="server")

MULTI_SHARD_SUM = ("request_policy:multi_shard", "response_policy:agg_sum")


# -- removing, counting, describing -------------------------------------------------------------


@generic(
    "unlink", -2, "write fast only_rows", many("RM delete"), since="4.0.0", tips=MULTI_SHARD_SUM
)
@generic("del", -2, "write only_rows", many("RM delete"), since="1.0.0", tips=MULTI_SHARD_SUM)
def del_(c: Context, argv: list[bytes]) -> Reply:
    """Remove keys; return how many existed.

    DEL key [key ...]
    UNLINK key [key ...]
    """
    count = 0
    for name in argv[1:]:
        key = c.db.find_row(name)
        if key is not None:
            c.db.remove(key)
            c.db.signal(name, b"del", GENERIC)
            count += 1
    return count


@generic("exists", -2, "readonly fast only_rows", many("RO"), since="1.0.0", tips=MULTI_SHARD_SUM)
def exists(c: Context, argv: list[bytes]) -> Reply:
    """How many of the keys exist. A key that is named twice counts twice.

    EXISTS key [key ...]
    """
    return sum(c.db.read_row(name) is not None for name in argv[1:])


@generic("touch", -2, "readonly fast only_rows", many("RO"), since="3.2.1", tips=MULTI_SHARD_SUM)
def touch(c: Context, argv: list[bytes]) -> Reply:
    """Mark keys as used without reading them; return how many exist.

    TOUCH key [key ...]
    """
    return sum(c.db.read_row(name, is_use=True) is not None for name in argv[1:])


@generic("type", 2, "readonly fast only_rows", one("RO"), since="1.0.0")
def type_(c: Context, argv: list[bytes]) -> Reply:
    """The type of a key's value, or none.

    TYPE key
    """
    row = c.db.read_row(argv[1])
    return Simple(b"none" if row is None else row[0].encode())


# -- finding names ----------------------------------------------------------------------------


@generic(
    "keys",
    2,
    "readonly",
    since="1.0.0",
    categories="keyspace dangerous",
    tips=("request_policy:all_shards", "nondeterministic_output_order"),
)
def keys(c: Context, argv: list[bytes]) -> Reply:
    """All names that match a pattern.

    KEYS pattern
    """
    matches = parse_pattern(argv[1])
    names = scanning.names(c.keyspace, c.db.space)
    return tuple(names if matches is None else filter(matches, names))


@generic(
    "scan",
    -2,
    "readonly",
    since="2.8.0",
    tips=("nondeterministic_output", "request_policy:special"),
)
def scan(c: Context, argv: list[bytes]) -> Reply:
    """Some names, and the cursor for the next call; 0 ends the scan.

    SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
    """
    cursor = parse_cursor(argv[1])
    count, matches, type_name, _ = ScanOptions.parse(argv, 2, takes_type=True)
    expired: list[bytes] = []
    cursor, found = scanning.scan(c.keyspace, c.db.space, cursor, count, expired)
    _remove_expired(c, expired)
    return [
        b"%d" % cursor,
        tuple(
            name
            for name, of_type in found
            if (type_name is None or of_type == type_name) and (matches is None or matches(name))
        ),
    ]


@generic(
    "randomkey",
    1,
    "readonly",
    since="1.0.0",
    tips=("request_policy:all_shards", "nondeterministic_output"),
)
def randomkey(c: Context, argv: list[bytes]) -> Reply:
    """A random name, or null if the database is empty.

    RANDOMKEY
    """
    expired: list[bytes] = []
    name = scanning.random_name(c.keyspace, c.db.space, c.rng, expired)
    _remove_expired(c, expired)
    return name


def _remove_expired(c: Context, names: list[bytes]) -> None:
    """Remove expired keys that SCAN or RANDOMKEY met, as in Redis; KEYS does not remove them.
    Mostly there are none, because the server removes them by itself."""
    for name in names[:MOST_REMOVED_AT_ONCE]:
        c.db.find_row(name)  # removes an expired key


# -- other names, other databases ---------------------------------------------------------------

SOURCE = one("RW access delete")


@generic("rename", 3, "write only_rows", SOURCE, one("OW update", 2), since="1.0.0")
def rename(c: Context, argv: list[bytes]) -> Reply:
    """Give a key another name, replacing the key that had it.

    RENAME key newkey
    """
    _rename(c, argv[1], argv[2], replace=True)
    return OK


@generic("renamenx", 3, "write fast only_rows", SOURCE, one("OW insert", 2), since="1.0.0")
def renamenx(c: Context, argv: list[bytes]) -> Reply:
    """Give a key another name, unless a key with that name exists.

    RENAMENX key newkey
    """
    return int(_rename(c, argv[1], argv[2], replace=False))


def _rename(c: Context, name: bytes, new_name: bytes, *, replace: bool) -> bool:
    key = c.db.find_row(name)
    if key is None:
        raise NO_SUCH_KEY
    if name == new_name:
        return False
    replaced = c.db.find_row(new_name)
    if replaced is not None:
        if not replace:
            return False
        c.db.remove(replaced)
    c.db.move(key, c.db, new_name)
    if replaced is not None and replaced.id > key.id:
        c.keyspace.renamed.add(replaced.id, new_name, c.db.space)
    c.db.signal(name, b"rename_from", GENERIC)
    c.db.signal(new_name, b"rename_to", GENERIC)
    if replaced is not None:
        c.db.tell_overwritten(new_name, replaced, key)
    return True


@generic("copy", -3, "write denyoom", one("RO access"), one("OW update", 2), since="6.2.0")
def copy(c: Context, argv: list[bytes]) -> Reply:
    """Copy a key, with its expiry, unless a key with the new name exists.

    COPY source destination [DB destination-db] [REPLACE]
    """
    name, new_name = argv[1], argv[2]
    target = c.db
    replace = False
    options = Options(argv, 3)
    while options:
        word = options.word()
        if word == b"REPLACE":
            replace = True
        elif word == b"DB":
            target = _database(c, options.value())
        else:
            raise SYNTAX
    if target is c.db and name == new_name:
        raise SAME_OBJECT
    key = c.db.read(name)
    if key is None:
        return 0
    replaced = target.find_row(new_name)
    if replaced is not None:
        if not replace:
            return 0
        target.remove(replaced)
    target.copy(key, new_name)
    target.signal(new_name, b"copy_to", GENERIC)
    if replaced is not None:
        target.tell_overwritten(new_name, replaced, key)
    return 1


@generic("move", 3, "write fast only_rows", one("RW access update"), since="1.0.0")
def move(c: Context, argv: list[bytes]) -> Reply:
    """Move a key into another database, unless a key with its name exists there.

    MOVE key db
    """
    name = argv[1]
    target = _database(c, argv[2])
    if target is c.db:
        raise SAME_OBJECT
    key = c.db.find_row(name)
    if key is None or target.find_row(name) is not None:
        return 0
    c.db.move(key, target, name)
    c.db.signal(name, b"move_from", GENERIC)
    target.signal(name, b"move_to", GENERIC)
    return 1


# -- whole databases --------------------------------------------------------------------------

ALL_SHARDS = ("request_policy:all_shards", "response_policy:all_succeeded")


@server(
    "dbsize",
    1,
    "readonly fast",
    since="1.0.0",
    categories="keyspace",
    tips=("request_policy:all_shards", "response_policy:agg_sum"),
)
def dbsize(c: Context, argv: list[bytes]) -> Reply:
    """How many keys the database has.

    DBSIZE
    """
    return len(c.db)


@server("flushdb", -1, "write", since="1.0.0", categories="keyspace dangerous", tips=ALL_SHARDS)
def flushdb(c: Context, argv: list[bytes]) -> Reply:
    """Remove all keys of the database; SYNC takes no longer than ASYNC.

    FLUSHDB [ASYNC | SYNC]
    """
    _check_flush_mode(argv)
    c.db.flush()
    c.keyspace.flushed()
    return OK


@server("flushall", -1, "write", since="1.0.0", categories="keyspace dangerous", tips=ALL_SHARDS)
def flushall(c: Context, argv: list[bytes]) -> Reply:
    """Remove all keys of all databases; SYNC takes no longer than ASYNC.

    FLUSHALL [ASYNC | SYNC]
    """
    _check_flush_mode(argv)
    for database in c.keyspace.databases:
        database.flush()
    c.keyspace.flushed()
    return OK


@server("swapdb", 3, "write fast", since="4.0.0", categories="keyspace dangerous")
def swapdb(c: Context, argv: list[bytes]) -> Reply:
    """Exchange the content of two databases; clients keep the index they selected.

    SWAPDB index1 index2
    """
    first = _int(argv[1], CommandError("ERR invalid first DB index"))
    second = _int(argv[2], CommandError("ERR invalid second DB index"))
    one_database, other = _database_at(c, first), _database_at(c, second)
    if one_database is not other:
        one_database.swap(other)
    return OK


# -- parts ------------------------------------------------------------------------------------


def _int(text: bytes, error: CommandError | None = None) -> int:
    """An integer in the range of a C int."""
    number = parse_int(text) if error is None else parse_int(text, error)
    if not -(1 << 31) <= number < 1 << 31:
        raise error or BEYOND_INT
    return number


def _database(c: Context, text: bytes) -> Database:
    return _database_at(c, _int(text))


def _database_at(c: Context, index: int) -> Database:
    if not 0 <= index < len(c.keyspace.databases):
        raise NO_SUCH_DATABASE
    return c.keyspace.databases[index]


def _check_flush_mode(argv: list[bytes]) -> None:
    if len(argv) > 2 or (len(argv) == 2 and argv[1].upper() not in (b"SYNC", b"ASYNC")):
        raise SYNTAX
