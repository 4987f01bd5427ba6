"""OBJECT: the replies that Redis would give about the form of a value. They do not depend on our
own form."""

from functools import partial

from holdfast.commands.context import Context
from holdfast.commands.encodings import encoding_of
from holdfast.commands.table import command, container, help_reply, one
from holdfast.errors import CommandError
from holdfast.resp import Reply

ADJUST = (
    " Please note that when switching between policies at runtime"
    " LRU and LFU data will take some time to adjust."
)
NO_IDLE_TIME = CommandError(
    "ERR An LFU maxmemory policy is selected, idle time not tracked." + ADJUST
)
NO_FREQUENCY = CommandError(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked." + ADJUST
)

SHARED_INTEGERS = 10_000
SHARED_REFCOUNT = (1 << 31) - 1

subcommand = partial(command, group="generic", categories="keyspace")
question = partial(subcommand, tips=("nondeterministic_output",))

container("object", -2, "", "How the value of a key is kept.", group="generic", since="2.2.3")


@question("object|encoding", 3, "readonly", one("RO", 2), since="2.2.3")
def encoding(c: Context, argv: list[bytes]) -> Reply:
    """The encoding in which Redis would keep the value.

    OBJECT ENCODING key
    """
    key = c.db.peek(argv[2])
    return None if key is None else encoding_of(c, key)


@question("object|refcount", 3, "readonly", one("RO", 2), since="2.2.3")
def refcount(c: Context, argv: list[bytes]) -> Reply:
    """The reference count that Redis would have: 1, or a huge number for a shared integer.

    OBJECT REFCOUNT key
    """
    key = c.db.peek(argv[2])
    if key is None:
        return None
    value = key.value
    is_shared = (
        type(value) is bytes
        and len(value) < len(b"%d" % SHARED_INTEGERS)
        and encoding_of(c, key) == b"int"
        and not value.startswith(b"-")
    )
    return SHARED_REFCOUNT if is_shared else 1


@question("object|idletime", 3, "readonly only_rows", one("RO", 2), since="2.2.3")
def idletime(c: Context, argv: list[bytes]) -> Reply:
    """The seconds since a key was last used.

    OBJECT IDLETIME key
    """
    is_cold = c.db.is_cold(argv[2])  # the time of its last use is not kept
    key = None if is_cold else c.db.peek(argv[2])
    if key is None and not is_cold:
        return None
    if c.keyspace.frequencies is not None:
        raise NO_IDLE_TIME
    return 0 if key is None else max(0, c.keyspace.now_s - key.accessed_s)


@question("object|freq", 3, "readonly", one("RO", 2), since="4.0.0")
def freq(c: Context, argv: list[bytes]) -> Reply:
    """The logarithmic counter of a key's uses, from 0 to 255.

    OBJECT FREQ key
    """
    key = c.db.peek(argv[2])
    if key is None:
        return None
    if c.keyspace.frequencies is None:
        raise NO_FREQUENCY
    return c.keyspace.frequencies.of(key)


@subcommand("object|help", 2, "loading stale", since="6.2.0")
def help_(c: Context, argv: list[bytes]) -> Reply:
    """Show the subcommands.

    OBJECT HELP
    """
    return help_reply(
        "OBJECT",
        """
        ENCODING <key>
            How Redis would keep the value.
        FREQ <key>
            How often the key is used; needs an LFU maxmemory-policy.
        IDLETIME <key>
            Seconds since the key was used.
        REFCOUNT <key>
            The reference count that Redis would have.
        """,
    )
