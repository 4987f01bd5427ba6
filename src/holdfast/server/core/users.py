"""The users of this server: their sources, signing in, permissions, and the log of denied commands.

The permissions of one user are in acl.py, the commands about users in
server/commands/acl_commands.py.
"""

import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path

from holdfast.commands.table import Command
from holdfast.errors import CommandError, ConfigError
from holdfast.server.auth.acl import Denial, RuleError, User, has_blanks, with_selectors_joined
from holdfast.server.auth.acl_text import line_of
from holdfast.server.config.config import Config
from holdfast.server.config.replace_file import replace_file
from holdfast.server.features.channels import PubSub
from holdfast.server.features.client_line import describe
from holdfast.server.features.tracking import Tracking
from holdfast.server.sessions.session import NEEDS_AUTH, RESTRICTED, Session
from holdfast.server.sessions.session_host import SessionHost

log = logging.getLogger(__name__)

ALL = (b"allcommands", b"allkeys", b"allchannels", b"on", b"nopass")
DUPLICATE = "Duplicate user found. A user can only be defined once in config files"
WRONG_PASSWORD = CommandError("WRONGPASS invalid username-password pair or user is disabled.")

NOPERM = {
    "command": b"NOPERM this user has no permissions to run the '%s' command",
    "key": b"NOPERM this user has no permissions to access one of the keys used as arguments",
    "channel": b"NOPERM this user has no permissions to access one of the channels used as"
    b" arguments",
    "database": b"NOPERM No permissions to access database",
}
NO_LONGER = (
    b"NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC"
    b" call. This command is no longer allowed for the following reason: "
)
IN_EXEC = {
    "command": b"no permission to execute the command or subcommand",
    "key": b"no permission to touch the specified keys",
    "channel": b"no permission to access one of the channels used as arguments",
    "database": b"no permission to access the database",
}
IN_SCRIPT = {
    "command": b"ERR The user executing the script can't run this command or subcommand",
    "key": b"ERR The user executing the script can't access at least one of the keys mentioned in"
    b" the command arguments",
    "channel": b"ERR The user executing the script can't publish to the channel mentioned in the"
    b" command",
    "database": b"ERR The user executing the script can't access the database",
}


# -- where users come from ------------------------------------------------------------------------


def configured_users(config: Config) -> dict[bytes, User]:
    """The users with which a server starts. Raises ConfigError."""
    users = {b"default": _default(config)}
    if not config.aclfile:
        for name, *rules in config.user:
            try:
                if name in users and name != b"default":
                    raise RuleError(DUPLICATE)
                # The default user exists already. These rules replace its rules.
                _define(users, name, [b"reset", *rules] if name in users else rules, config)
            except RuleError as error:
                raise ConfigError(f"user {_shown(name)}: {_reason(error)}") from None
        return users
    if config.user:
        raise ConfigError("users stand either in aclfile or in 'user' lines, not in both")
    try:
        return users_in_file(config)
    except OSError as error:
        path = config.path(config.aclfile)
        raise ConfigError(f"aclfile: cannot read {path}: {error.strerror}") from None
    except CommandError as error:
        raise ConfigError(f"aclfile: {str(error).removeprefix('ERR ')}") from None


def _default(config: Config) -> User:
    """The user of clients that do not sign in. It may do everything. If `requirepass` is set, that
    is its password."""
    user = User(b"default", all_channels=True).changed(ALL, all_channels=True)
    if config.requirepass:
        user.become(user.changed((b"resetpass", b">" + config.requirepass), all_channels=True))
    return user


def _define(users: dict[bytes, User], name: bytes, rules: list[bytes], config: Config) -> None:
    if has_blanks(name):
        raise RuleError("the name contains invalid characters")
    all_channels = config.acl_pubsub_default == "allchannels"
    user = User(name, all_channels=all_channels)
    users[name] = user.changed(with_selectors_joined(rules), all_channels=all_channels)


def users_in_file(config: Config) -> dict[bytes, User]:
    """The users in the ACL file. Raises OSError, or CommandError that names every bad line."""
    text = Path(config.path(config.aclfile)).read_bytes()
    users: dict[bytes, User] = {}
    errors = []
    for number, line in enumerate(text.split(b"\n"), 1):
        words = line.strip(b" \t\r\n").split(b" ")
        if words == [b""]:
            continue
        where = f"{config.aclfile}:{number}: "
        if words[0] != b"user" or len(words) < 2:
            errors.append(where + "line should start with user keyword ")
            continue
        name, rules = words[1], words[2:]
        try:
            if name in users:
                raise RuleError(DUPLICATE)
            _define(users, name, rules, config)
        except RuleError as error:
            errors.append(f"{where}{_reason(error)}. ")
    if errors:
        raise CommandError(
            f"ERR {''.join(errors)}WARNING: ACL errors detected, no change to the previously"
            " active ACL rules was performed"
        )
    if b"default" not in users:
        users[b"default"] = User(b"default", all_channels=True).changed(ALL, all_channels=True)
    return users


def _reason(error: RuleError) -> str:
    return str(error.args[0])


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "replace")


# -- what was denied ------------------------------------------------------------------------------


class LogEntry:
    def __init__(
        self,
        reason: str,
        context: str,
        object: bytes,
        username: bytes,
        at_ms: int,
        client_info: bytes,
    ) -> None:
        self.reason = reason
        self.context = context
        self.object = object
        self.username = username
        self.at_ms = at_ms
        self.client_info = client_info
        self.count = 1


GROUPED_MS = 60_000  # a denial that comes again within this time is counted, not listed again


class Users:
    def __init__(self, host: SessionHost, pubsub: PubSub, tracking: Tracking) -> None:
        self._host = host
        self._config = host.config
        self._pubsub = pubsub
        self._tracking = tracking
        self.by_name = configured_users(host.config)
        self.default = self.by_name[b"default"]
        self.log: deque[LogEntry] = deque()  # newest first
        self._have_changed = False  # since `keep`

    def names(self) -> list[bytes]:
        return sorted(self.by_name)

    def lines(self) -> list[bytes]:
        return [line_of(self.by_name[name]) for name in self.names()]

    # -- signing in ---------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether clients are the default user without signing in."""
        return self.default.nopass and self.default.enabled

    def welcome(self, session: Session) -> None:
        """Set the user of a new connection, or of one that was reset."""
        session.user = self.default
        session.authenticated = self.is_open
        self.look_again(session)

    def look_again(self, session: Session) -> None:
        """Set the modes of a session after users changed. A session that has signed in stays signed
        in, with the present permissions of its user."""
        modes = session.modes & ~(NEEDS_AUTH | RESTRICTED)
        if not (session.authenticated or self.is_open):
            modes |= NEEDS_AUTH
        if not session.user.is_unrestricted:
            modes |= RESTRICTED
        has_changed = (session.modes ^ modes) & NEEDS_AUTH
        session.modes = modes
        if has_changed:
            session.needs_auth_since_s = self._host.clock.monotonic_s()
            session.limits_changed()

    def authenticate(self, session: Session, argv: list[bytes], name: bytes, pw: bytes) -> None:
        """Sign a session in. Raises WRONG_PASSWORD."""
        user = self.by_name.get(name)
        if user is None or not user.accepts(pw):
            context = "toplevel" if session.multi is None else "multi"
            self._note(session, "auth", context, argv[0], name)
            raise WRONG_PASSWORD
        session.user = user
        session.authenticated = True
        self.look_again(session)

    # -- permissions --------------------------------------------------------------------------

    def check(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Check the permissions for a command. Raises NOPERM."""
        denial = session.user.denies(command, argv, session.db.index)
        if denial is not None:
            self._denied(session, denial, "toplevel" if session.multi is None else "multi")
            message = NOPERM[denial.reason]
            if denial.reason == "command":
                message %= denial.object
            raise CommandError(message)

    def check_in_exec(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """`check`, for a command of a transaction: rules may have changed since it was queued."""
        denial = session.user.denies(command, argv, session.db.index)
        if denial is not None:
            self._denied(session, denial, "multi")
            raise CommandError(NO_LONGER + IN_EXEC[denial.reason])

    def check_in_script(
        self, caller: Session, command: Command, argv: list[bytes], database: int
    ) -> None:
        """`check`, for a command of a script, which has the permissions of its caller. Raises
        CommandError with the text that Redis has there."""
        denial = caller.user.denies(command, argv, database)
        if denial is not None:
            self._denied(caller, denial, "lua")
            raise CommandError(IN_SCRIPT[denial.reason])

    def _denied(self, session: Session, denial: Denial, context: str) -> None:
        self._note(session, denial.reason, context, denial.object, session.user.name)

    def _note(self, session: Session, reason: str, context: str, what: bytes, name: bytes) -> None:
        now_ms = self._host.clock.now_ms()
        client_line = describe(session, self._pubsub, self._tracking)
        entry = LogEntry(reason, context, what, name, now_ms, client_line)
        for older in list(self.log)[:10]:
            if (
                (older.reason, older.context) == (reason, context)
                and (older.object, older.username) == (what, name)
                and now_ms - older.at_ms <= GROUPED_MS
            ):
                entry.count += older.count
                self.log.remove(older)
                break
        self.log.appendleft(entry)
        while len(self.log) > self._config.acllog_max_len:
            self.log.pop()

    # -- changing users -----------------------------------------------------------------------

    def set(self, asker: Session, name: bytes, rules: list[bytes]) -> None:
        """Create or change a user: all rules or none. Raises RuleError."""
        all_channels = self._config.acl_pubsub_default == "allchannels"
        user = self.by_name.get(name)
        changed = (user or User(name, all_channels=all_channels)).changed(
            rules, all_channels=all_channels
        )
        if user is None:
            self.by_name[name] = changed
        else:
            user.become(changed)
            self._update_sessions()
            self._close_sessions(asker, lambda s: s.user is user and self._hears_too_much(s))
        self._have_changed = True

    def delete(self, asker: Session, name: bytes) -> bool:
        user = self.by_name.pop(name, None)
        if user is None:
            return False
        self._close_sessions(asker, lambda session: session.user is user)
        self._have_changed = True
        return True

    def use_requirepass(self) -> None:
        """Apply `requirepass` after CONFIG SET."""
        password = self._config.requirepass
        rule = b">" + password if password else b"nopass"
        self.default.become(self.default.changed((b"resetpass", rule), all_channels=True))
        self._update_sessions()

    def load(self, asker: Session) -> None:
        """ACL LOAD. Only sessions of the default user stay connected. Raises CommandError."""
        try:
            users = users_in_file(self._config)
        except OSError as error:
            raise CommandError(
                f"ERR Error loading ACLs, opening file '{self._config.aclfile}': {error.strerror}"
            ) from None
        self.default.become(users[b"default"])
        self.by_name = users | {b"default": self.default}
        self._close_sessions(asker, lambda session: session.user is not self.default)
        self._update_sessions()
        self._close_sessions(asker, self._hears_too_much)

    def save(self) -> None:
        """ACL SAVE: the old file stays until the new one is on disk. Raises OSError."""
        path = Path(self._config.path(self._config.aclfile))
        replace_file(path, b"".join([line + b"\n" for line in self.lines()]), new_mode=0o600)

    def keep(self) -> None:
        """Keep changed users in the configuration, for CONFIG REWRITE, which writes none if there
        is an ACL file. Not at each change, because a line takes milliseconds to make."""
        if self._have_changed and not self._config.aclfile:
            self._config.user = tuple(tuple(line.split(b" ")[1:]) for line in self.lines())
            self._have_changed = False

    def _update_sessions(self) -> None:
        for session in self._host.sessions.values():
            self.look_again(session)

    def _close_sessions(self, asker: Session, should_go: Callable[[Session], bool]) -> None:
        """Close the sessions that should go. If the asker is one of them, it still gets its
        reply."""
        for session in [s for s in self._host.sessions.values() if should_go(s)]:
            session.user = self.default
            session.authenticated = False
            self.look_again(session)
            if session is asker:
                session.hang_up()
            else:
                session.abort()

    def _hears_too_much(self, session: Session) -> bool:
        """Whether the session listens to channels that its user may no longer listen to."""
        pubsub, user = self._pubsub, session.user
        channels = pubsub.channels.names_of(session) + pubsub.shards.names_of(session)
        patterns = pubsub.patterns.names_of(session)
        return not (
            all(user.may_hear(name, is_pattern=False) for name in channels)
            and all(user.may_hear(name, is_pattern=True) for name in patterns)
        )
