"""ACL: users and their permissions. Rules and users themselves are in server/auth."""

import os

from holdfast.commands.args import parse_int
from holdfast.commands.table import CATEGORIES, command, container, help_reply
from holdfast.errors import CommandError
from holdfast.resp import OK, Reply, SetReply
from holdfast.resp.c_strings import c_string
from holdfast.server.auth.acl import (
    RuleError,
    Selector,
    all_commands,
    has_blanks,
    with_selectors_joined,
)
from holdfast.server.auth.acl_text import (
    channels_of,
    commands_of,
    databases_of,
    flags_of,
    keys_of,
)
from holdfast.server.core.engine import engine_of
from holdfast.server.core.users import LogEntry
from holdfast.server.dispatch.lookup import wrong_arity
from holdfast.server.sessions.session import Session

ADMIN = "admin noscript loading stale"
ANYONE = "noscript loading stale"

BAD_NAME = CommandError("ERR Usernames can't contain spaces or null characters")
NOT_DEFAULT = CommandError("ERR The 'default' user cannot be removed")
BAD_BITS = CommandError(
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive"
    " number up to 4096"
)
NO_FILE = CommandError(
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users"
    " via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis"
    " configuration file set) in order to store users in the Redis configuration."
)
NOT_SAVED = CommandError(
    "ERR There was an error trying to save the ACLs. Please check the server logs for more"
    " information"
)
DRYRUN = {
    "command": b"This user has no permissions to run the '%s' command",
    "key": b"This user has no permissions to access the '%s' key",
    "channel": b"This user has no permissions to access the '%s' channel",
    "database": b"This user has no permissions to access database %s",
}

container("acl", -2, "", "Manage users and their permissions.", group="server", since="6.0.0")


def _at_most(argv: list[bytes], count: int) -> None:
    if len(argv) > count:
        raise CommandError(
            b"ERR unknown subcommand or wrong number of arguments for '%s'. Try ACL HELP."
            % argv[1][:128]
        )


# -- users ----------------------------------------------------------------------------------------


@command("acl|setuser", -3, ADMIN, group="server", since="6.0.0")
def setuser(session: Session, argv: list[bytes]) -> Reply:
    """Create a user, or change its permissions: all rules are applied, or none.

    ACL SETUSER username [rule [rule ...]]
    """
    if has_blanks(argv[2]):
        raise BAD_NAME
    try:
        rules = with_selectors_joined(argv[3:])
    except RuleError as error:
        raise CommandError(
            b"ERR Unmatched parenthesis in acl selector starting at '%s'." % error.args[1]
        ) from None
    try:
        engine_of(session).users.set(session, argv[2], rules)
    except RuleError as error:
        reason, rule = error.args
        raise CommandError(
            b"ERR Error in ACL SETUSER modifier '%s': %s" % (c_string(rule), reason.encode())
        ) from None
    return OK


@command("acl|deluser", -3, ADMIN, group="server", since="6.0.0")
def deluser(session: Session, argv: list[bytes]) -> Reply:
    """Remove users and close their connections; return how many existed.

    ACL DELUSER username [username ...]
    """
    if b"default" in argv[2:]:
        raise NOT_DEFAULT
    return sum(engine_of(session).users.delete(session, name) for name in argv[2:])


@command("acl|getuser", 3, ADMIN, group="server", since="6.0.0")
def getuser(session: Session, argv: list[bytes]) -> Reply:
    """The permissions of a user.

    ACL GETUSER username
    """
    user = engine_of(session).users.by_name.get(argv[2])
    if user is None:
        return None
    root, *others = user.selectors
    return {
        b"flags": SetReply(flags_of(user)),
        b"passwords": list(user.passwords),
        **_permissions(root),
        b"selectors": [_permissions(selector) for selector in others],
    }


def _permissions(selector: Selector) -> dict[bytes, Reply]:
    shown: dict[bytes, Reply] = {
        b"commands": commands_of(selector),
        b"keys": keys_of(selector),
        b"channels": channels_of(selector),
    }
    if selector.databases is not None:  # Redis has no such rules, so it shows no such line
        shown[b"databases"] = databases_of(selector)
    return shown


@command("acl|list", 2, ADMIN, group="server", since="6.0.0")
def list_(session: Session, argv: list[bytes]) -> Reply:
    """All users with their rules, as in a file.

    ACL LIST
    """
    return tuple(engine_of(session).users.lines())


@command("acl|users", 2, ADMIN, group="server", since="6.0.0")
def users(session: Session, argv: list[bytes]) -> Reply:
    """The names of all users.

    ACL USERS
    """
    return tuple(engine_of(session).users.names())


@command("acl|whoami", 2, ANYONE, group="server", since="6.0.0")
def whoami(session: Session, argv: list[bytes]) -> Reply:
    """The user of this connection.

    ACL WHOAMI
    """
    return session.user.name


@command("acl|dryrun", -4, ADMIN, group="server", since="7.0.0")
def dryrun(session: Session, argv: list[bytes]) -> Reply:
    """Whether a user may run a command, which does not run.

    ACL DRYRUN username command [arg [arg ...]]
    """
    engine = engine_of(session)
    user = engine.users.by_name.get(argv[2])
    if user is None:
        raise CommandError(b"ERR User '%s' not found" % argv[2])
    asked = argv[3:]
    try:
        entry, _ = engine.commands.find(asked)
    except CommandError:
        raise CommandError(b"ERR Command '%s' not found" % asked[0]) from None
    if not entry.min_args <= len(asked) <= entry.max_args:
        raise wrong_arity(entry)
    denial = user.denies(entry, asked, session.db.index)
    return OK if denial is None else DRYRUN[denial.reason] % denial.object


# -- helpers --------------------------------------------------------------------------------------


@command("acl|cat", -2, ANYONE, group="server", since="6.0.0")
def cat(session: Session, argv: list[bytes]) -> Reply:
    """The categories of commands, or the commands of one.

    ACL CAT [categoryname]
    """
    _at_most(argv, 3)
    if len(argv) == 2:
        return tuple(name.encode() for name in CATEGORIES)
    category = argv[2].decode("latin-1").lower()
    if category not in CATEGORIES:
        raise CommandError(b"ERR Unknown category '%s'" % argv[2])
    return tuple(c.name.encode() for c in all_commands() if category in c.categories)


@command("acl|genpass", -2, ANYONE, group="server", since="6.0.0")
def genpass(session: Session, argv: list[bytes]) -> Reply:
    """A random password, in hexadecimal: of 256 bits, or as many as asked for.

    ACL GENPASS [bits]
    """
    _at_most(argv, 3)
    bits = parse_int(argv[2]) if len(argv) == 3 else 256
    if not 0 < bits <= 4096:
        raise BAD_BITS
    digits = (bits + 3) // 4
    return os.urandom((digits + 1) // 2).hex()[:digits].encode()


@command("acl|log", -2, ADMIN, group="server", since="6.0.0")
def log(session: Session, argv: list[bytes]) -> Reply:
    """The commands that were denied lately, the newest first; RESET forgets them.

    ACL LOG [count | RESET]
    """
    _at_most(argv, 3)
    users = engine_of(session).users
    if len(argv) == 3 and argv[2].upper() == b"RESET":
        users.log.clear()
        return OK
    count = parse_int(argv[2]) if len(argv) == 3 else 10
    now_ms = engine_of(session).clock.now_ms()
    return [_entry(entry, now_ms) for entry in list(users.log)[: max(0, count)]]


def _entry(entry: LogEntry, now_ms: int) -> Reply:
    return {
        b"count": entry.count,
        b"reason": entry.reason.encode(),
        b"context": entry.context.encode(),
        b"object": entry.object,
        b"username": entry.username,
        b"age-seconds": (now_ms - entry.at_ms) / 1000,
        b"client-info": entry.client_info,
    }


# -- the file -------------------------------------------------------------------------------------


@command("acl|load", 2, ADMIN, group="server", since="6.0.0")
def load(session: Session, argv: list[bytes]) -> Reply:
    """Read the users from the ACL file again; if it has errors, nothing changes.

    ACL LOAD
    """
    if not engine_of(session).config.aclfile:
        raise NO_FILE
    engine_of(session).users.load(session)
    return OK


@command("acl|save", 2, ADMIN, group="server", since="6.0.0")
def save(session: Session, argv: list[bytes]) -> Reply:
    """Write the users to the ACL file.

    ACL SAVE
    """
    if not engine_of(session).config.aclfile:
        raise NO_FILE
    try:
        engine_of(session).users.save()
    except OSError:
        raise NOT_SAVED from None
    return OK


@command("acl|help", 2, "loading stale", group="server", since="6.0.0")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of ACL.

    ACL HELP
    """
    return help_reply(
        "ACL",
        """
        CAT [<category>]
            The categories of commands, or the commands of one.
        DELUSER <username> [<username> ...]
            Remove users and close their connections.
        DRYRUN <username> <command> [<arg> ...]
            Whether a user may run a command, which does not run.
        GETUSER <username>
            The permissions of a user.
        GENPASS [<bits>]
            A random password.
        LIST
            All users with their rules, as in a file.
        LOAD
            Read the users from the ACL file again.
        LOG [<count> | RESET]
            The commands that were denied lately.
        SAVE
            Write the users to the ACL file.
        SETUSER <username> <rule> [<rule> ...]
            Create or change a user.
        USERS
            The names of all users.
        WHOAMI
            The user of this connection.
        """,
    )
