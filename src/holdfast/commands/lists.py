"""List commands."""

from holdfast.commands.args import parse_timeout_s
from holdfast.commands.context import Block, Context, Result
from holdfast.commands.table import command, many, one
from holdfast.resp import Reply
from holdfast.store.keyspace import LIST
from holdfast.store.lists import List


@command("lpush", -3, "write denyoom fast", one("RW insert"), group="list", since="1.0.0")
def lpush(c: Context, argv: list[bytes]) -> Reply:
    """Put elements in front of a list, creating it if needed."""
    _, value = c.db.find_list(argv[1]) or c.db.create_list(argv[1])
    value.push_left(argv[2:], c.keyspace)
    c.db.signal(argv[1], b"lpush", LIST)
    return len(value)


@command(
    "blpop",
    -3,
    "write noscript blocking",
    many("RW access delete", 1, -2),
    group="list",
    since="2.0.0",
)
def blpop(c: Context, argv: list[bytes]) -> Result:
    """Take the first element of the first list that has one; wait if none has."""
    timeout_s = parse_timeout_s(argv[-1])
    for name in argv[1:-1]:
        found = c.db.find_list(name)
        if found is not None:
            key, value = found
            element = value.pop_left_one(c.keyspace)
            c.db.shrunk(key, b"lpop", LIST)
            return (name, element)
    return Block(argv[1:-1], List, timeout_s)
