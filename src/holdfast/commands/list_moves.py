"""List commands that move elements from one list to another, including those that wait."""

from functools import partial

from holdfast.commands.args import COUNT_NOT_POSITIVE, INT64_MAX, parse_int_between, parse_timeout_s
from holdfast.commands.context import Block, Context, Result
from holdfast.commands.list_args import LEFT, RIGHT, End, parse_end, push
from holdfast.commands.table import command, one
from holdfast.errors import SYNTAX
from holdfast.resp import NULL_ARRAY, Reply
from holdfast.store.memory.events import LIST
from holdfast.store.values.list import List

list_command = partial(command, group="list", categories="list")

MOVE_KEYS = (one("RW access delete"), one("RW insert", 2))


def _move(c: Context, argv: list[bytes], source_end: End, target_end: End) -> bytes | None:
    """Move one element and return it; None if there is none. Both lists may be the same."""
    source = c.db.find_as(argv[1], List)
    if source is None:
        return None
    target = c.db.find_as(argv[2], List)
    key, value = source
    element = source_end.pop(value, c.keyspace)
    to = target[1] if target else c.db.create_as(argv[2], List)[1]
    push(c, argv[2], to, target_end, [element])
    # After the push: if both lists are the same, it must not be removed as empty in between.
    c.db.shrunk(key, source_end.popped, LIST)
    return element


@list_command("lmove", 5, "write denyoom", *MOVE_KEYS, since="6.2.0")
def lmove(c: Context, argv: list[bytes]) -> Reply:
    """Move an element from one end of a list to one end of another, or of the same.

    LMOVE source destination LEFT|RIGHT LEFT|RIGHT
    """
    return _move(c, argv, parse_end(argv[3]), parse_end(argv[4]))


@list_command("rpoplpush", 3, "write denyoom", *MOVE_KEYS, since="1.2.0")
def rpoplpush(c: Context, argv: list[bytes]) -> Reply:
    """Move the last element of a list to the front of another, or of the same.

    RPOPLPUSH source destination
    """
    return _move(c, argv, RIGHT, LEFT)


def _blocking_move(c: Context, argv: list[bytes], source_end: End, target_end: End) -> Result:
    timeout_s = parse_timeout_s(argv[-1])
    element = _move(c, argv, source_end, target_end)
    return Block([argv[1]], List, timeout_s, when_denied=None) if element is None else element


@list_command("blmove", 6, "write denyoom noscript blocking", *MOVE_KEYS, since="6.2.0")
def blmove(c: Context, argv: list[bytes]) -> Result:
    """Move an element from one end of a list to one end of another; wait for one if needed.

    BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout
    """
    return _blocking_move(c, argv, parse_end(argv[3]), parse_end(argv[4]))


@list_command("brpoplpush", 4, "write denyoom noscript blocking", *MOVE_KEYS, since="2.2.0")
def brpoplpush(c: Context, argv: list[bytes]) -> Result:
    """Move the last element of a list to the front of another; wait for one if needed.

    BRPOPLPUSH source destination timeout
    """
    return _blocking_move(c, argv, RIGHT, LEFT)


# -- several elements -------------------------------------------------------------------------


class Moves:
    """The arguments of LMOVEM and BLMOVEM: the ends, how many elements, and in which order."""

    def __init__(self, argv: list[bytes], options_at: int) -> None:
        self.source_end = parse_end(argv[3])
        self.target_end = parse_end(argv[4])
        self.count, self.is_exact, self.one_by_one = 1, False, False
        options = argv[options_at:]
        if not options:
            return
        if len(options) != 3:
            raise SYNTAX
        selector, count, order = options[0].upper(), options[1], options[2].upper()
        if selector not in (b"COUNT", b"EXACTLY") or order not in (b"OBO", b"BULK"):
            raise SYNTAX
        self.count = parse_int_between(count, 1, INT64_MAX, COUNT_NOT_POSITIVE)
        self.is_exact, self.one_by_one = selector == b"EXACTLY", order == b"OBO"

    def run(self, c: Context, argv: list[bytes]) -> tuple[bytes, ...] | None:
        """Move elements and return them in the order that they have in the target; None if there
        are none, or fewer than the exact count. Both lists may be the same."""
        source = c.db.find_as(argv[1], List)
        if source is None:
            return None
        target = c.db.find_as(argv[2], List)
        key, value = source
        if self.is_exact and len(value) < self.count:
            return None
        popped = self.source_end.pop_many(value, self.count, c.keyspace)
        # An element that is pushed to the left stands before the one that was pushed before it.
        block = (
            self.target_end.in_list_order(popped[::-1])
            if self.one_by_one
            else self.source_end.in_list_order(popped)
        )
        to = target[1] if target else c.db.create_as(argv[2], List)[1]
        self.target_end.push_block(to, block, c.keyspace)
        c.db.signal(argv[2], self.target_end.pushed, LIST)
        c.db.shrunk(key, self.source_end.popped, LIST)  # after the push, as in `_move`
        return tuple(block)


@list_command("lmovem", -5, "write denyoom", *MOVE_KEYS, since="8.10.0")
def lmovem(c: Context, argv: list[bytes]) -> Reply:
    """Move elements from one end of a list to one end of another; return them in their new order.

    LMOVEM source destination LEFT|RIGHT LEFT|RIGHT [COUNT|EXACTLY count OBO|BULK]

    OBO: one by one, as with LMOVE. BULK: they keep their order. EXACTLY: as many as the count, or
    none. The reply is null if none is moved.
    """
    moved = Moves(argv, 5).run(c, argv)
    return NULL_ARRAY if moved is None else moved


@list_command("blmovem", -6, "write denyoom blocking", *MOVE_KEYS, since="8.10.0")
def blmovem(c: Context, argv: list[bytes]) -> Result:
    """Move elements as LMOVEM does; wait for one, or with EXACTLY for all of them.

    BLMOVEM source destination LEFT|RIGHT LEFT|RIGHT timeout [COUNT|EXACTLY count OBO|BULK]
    """
    moves = Moves(argv, 6)
    timeout_s = parse_timeout_s(argv[5])
    moved = moves.run(c, argv)
    if moved is None:
        return Block([argv[1]], List, timeout_s, at_each_change=moves.is_exact)
    return moved
