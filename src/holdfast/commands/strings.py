"""String commands."""

from holdfast.commands.context import Context
from holdfast.commands.table import command, one
from holdfast.resp import OK, Reply
from holdfast.store.keyspace import STRING


@command("get", 2, "readonly fast", one("RO access"), group="string", since="1.0.0")
def get(c: Context, argv: list[bytes]) -> Reply:
    """The value of a string key."""
    return c.db.read_string(argv[1])


@command(
    "set",
    -3,
    "write denyoom",
    one("RW access update variable_flags"),
    group="string",
    since="1.0.0",
)
def set_(c: Context, argv: list[bytes]) -> Reply:
    """Set a key to a string."""
    c.db.set_string(argv[1], argv[2])
    c.db.signal(argv[1], b"set", STRING)
    return OK
