"""XGROUP: consumer groups of a stream and their consumers."""

from functools import partial

from holdfast.commands.args import Options
from holdfast.commands.context import Context
from holdfast.commands.streams.stream_args import is_mark, parse_bound, parse_id
from holdfast.commands.table import command, container, help_reply, one
from holdfast.errors import CommandError
from holdfast.resp import OK, Reply
from holdfast.resp.c_strings import c_string
from holdfast.store.memory.events import STREAM
from holdfast.store.memory.key import Key
from holdfast.store.values.stream import Stream
from holdfast.store.values.stream_group import Group

NEEDS_KEY = CommandError(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use"
    " the MKSTREAM option to create an empty stream automatically."
)
BUSY_GROUP = CommandError("BUSYGROUP Consumer Group name already exists")
READ_NEGATIVE = CommandError("ERR value for ENTRIESREAD must be positive or -1")

subcommand = partial(command, group="stream", categories="stream")

container("xgroup", -2, "", "Consumer groups of a stream.", group="stream", since="5.0.0")


def _wrong_syntax(argv: list[bytes]) -> CommandError:
    return CommandError(
        b"ERR unknown subcommand or wrong number of arguments for '%b'. Try XGROUP HELP."
        % c_string(argv[1])[:128]
    )


def _find(c: Context, argv: list[bytes]) -> tuple[Key, Stream]:
    found = c.db.find_as(argv[2], Stream)
    if found is None:
        raise NEEDS_KEY
    return found


def _find_group(c: Context, argv: list[bytes]) -> tuple[Stream, Group]:
    _, stream = _find(c, argv)
    group = stream.groups.get(argv[3])
    if group is None:
        raise CommandError(
            b"NOGROUP No such consumer group '%b' for key name '%b'"
            % (c_string(argv[3]), c_string(argv[2]))
        )
    return stream, group


def _parse_options(argv: list[bytes], *, may_create: bool) -> tuple[bool, int | None]:
    """Parse `[MKSTREAM] [ENTRIESREAD entries-read]`. Returns whether MKSTREAM is given, and the
    number of entries read."""
    is_making, entries_read = False, -1
    options = Options(argv, 5)
    while options:
        word = options.word()
        if word == b"MKSTREAM" and may_create:
            is_making = True
        elif word == b"ENTRIESREAD" and options:
            entries_read = options.integer()
            if entries_read < -1:
                raise READ_NEGATIVE
        else:
            raise _wrong_syntax(argv)
    return is_making, None if entries_read == -1 else entries_read


@subcommand("xgroup|create", -5, "write denyoom", one("RW insert", 2), since="5.0.0")
def create(c: Context, argv: list[bytes]) -> Reply:
    """Create a group that begins after an id; `$` is the last id of the stream.

    XGROUP CREATE key group id|$ [MKSTREAM] [ENTRIESREAD entries-read]
    """
    name = argv[2]
    is_making, entries_read = _parse_options(argv, may_create=True)
    found = c.db.find_as(name, Stream)
    if found is None and not is_making:
        raise NEEDS_KEY
    if len(argv) > 8:
        raise _wrong_syntax(argv)
    if is_mark(argv[4], b"$"):
        last_id = found[1].last_id if found else 0
    else:
        last_id = parse_id(argv[4])
    is_new = found is None
    if found is None:
        found = c.db.create_as(name, Stream)
        found[1].create(c.keyspace)
    _, stream = found
    if argv[3] in stream.groups:
        raise BUSY_GROUP
    stream.set_group(argv[3], last_id, entries_read, c.keyspace)
    (c.db.signal if is_new else c.db.signal_quietly)(name, b"xgroup-create", STREAM)
    return OK


@subcommand("xgroup|setid", -5, "write", one("RW update", 2), since="5.0.0")
def setid(c: Context, argv: list[bytes]) -> Reply:
    """Set the id after which a group continues; `$` is the last id of the stream.

    XGROUP SETID key group id|$ [ENTRIESREAD entries-read]
    """
    _, entries_read = _parse_options(argv, may_create=False)
    stream, group = _find_group(c, argv)
    if len(argv) > 7:
        raise _wrong_syntax(argv)
    last_id = stream.last_id if is_mark(argv[4], b"$") else parse_bound(argv[4])
    stream.set_group(group.name, last_id, entries_read, c.keyspace)
    c.db.signal_quietly(argv[2], b"xgroup-setid", STREAM)
    return OK


@subcommand("xgroup|destroy", 4, "write", one("RW delete", 2), since="5.0.0")
def destroy(c: Context, argv: list[bytes]) -> Reply:
    """Remove a group with its consumers and pending entries; return 1 if it existed.

    XGROUP DESTROY key group
    """
    key, stream = _find(c, argv)
    group = stream.groups.get(argv[3])
    if group is None:
        return 0
    stream.delete_group(group, c.keyspace)
    c.db.signal_quietly(argv[2], b"xgroup-destroy", STREAM)
    c.db.wake_waiters(key)
    return 1


@subcommand("xgroup|createconsumer", 5, "write denyoom", one("RW insert", 2), since="6.2.0")
def createconsumer(c: Context, argv: list[bytes]) -> Reply:
    """Create a consumer in a group; return 1 if it did not exist.

    XGROUP CREATECONSUMER key group consumer
    """
    stream, group = _find_group(c, argv)
    if argv[4] in group.consumers:
        return 0
    stream.see_consumer(group, argv[4], c.keyspace.now_ms, c.keyspace)
    c.db.signal_quietly(argv[2], b"xgroup-createconsumer", STREAM)
    return 1


@subcommand("xgroup|delconsumer", 5, "write", one("RW delete", 2), since="5.0.0")
def delconsumer(c: Context, argv: list[bytes]) -> Reply:
    """Remove a consumer and its pending entries; return how many it had.

    XGROUP DELCONSUMER key group consumer
    """
    stream, group = _find_group(c, argv)
    consumer = group.consumers.get(argv[4])
    if consumer is None:
        return 0
    pending = len(consumer.pending)
    stream.delete_consumer(group, consumer, c.keyspace)
    c.db.signal_quietly(argv[2], b"xgroup-delconsumer", STREAM)
    return pending


@subcommand("xgroup|help", 2, "loading stale", since="5.0.0")
def help_(c: Context, argv: list[bytes]) -> Reply:
    """Show the subcommands.

    XGROUP HELP
    """
    return help_reply(
        "XGROUP",
        """
        CREATE <key> <group> <id|$> [MKSTREAM] [ENTRIESREAD <entries-read>]
            Create a group that begins after an id.
        CREATECONSUMER <key> <group> <consumer>
            Create a consumer.
        DELCONSUMER <key> <group> <consumer>
            Remove a consumer and its pending entries.
        DESTROY <key> <group>
            Remove a group.
        SETID <key> <group> <id|$> [ENTRIESREAD <entries-read>]
            Set the id after which a group continues.
        """,
    )
