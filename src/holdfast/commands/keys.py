"""Commands on keys of any type."""

from holdfast.commands.context import Context
from holdfast.commands.table import command, many
from holdfast.resp import Reply
from holdfast.store.keyspace import GENERIC


@command("del", -2, "write", many("RM delete"), group="generic", since="1.0.0")
def del_(c: Context, argv: list[bytes]) -> Reply:
    """Remove keys."""
    count = 0
    for name in argv[1:]:
        key = c.db.find(name)
        if key is not None:
            c.db.remove(key)
            c.db.signal(name, b"del", GENERIC)
            count += 1
    return count
