"""Client-side caching: the keys that sessions have read, and the messages when these keys change.

CLIENT TRACKING is parsed in server/commands/tracking_commands.py. The engine calls `remember` after
a command of a session that tracks. The notifications of the keyspace call `changed`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from holdfast.commands.table import Command
from holdfast.resp import Push, Reply
from holdfast.server.features.channels import PubSub
from holdfast.server.sessions.out_of_band import Shared
from holdfast.server.sessions.session import SUBSCRIBED, TRACKING, Session
from holdfast.server.sessions.session_host import SessionHost

CHANNEL = b"__redis__:invalidate"


class Tracker:
    """The options of CLIENT TRACKING of one session."""

    redirect = 0  # the id of the session that gets the messages instead; 0: itself
    bcast = False
    optin = False
    optout = False
    noloop = False
    caching = False  # CLIENT CACHING was called for the next command
    is_broken = False  # the session to redirect to is gone

    def __init__(self) -> None:
        self.prefixes: set[bytes] = set()


class Prefix:
    """A prefix of keys: the sessions that get a message for each changed key, and the keys that
    have changed in this turn."""

    __slots__ = ("changed", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[Session, Tracker] = {}
        self.changed: dict[bytes, Session | None] = {}  # key: the session that changed it last


class Invalidation:
    """The message that says which keys are invalid, in its two forms."""

    __slots__ = ("as_message", "as_push")

    def __init__(self, names: Iterable[bytes] | None) -> None:
        """`names`: None means all keys."""
        what: Reply = None if names is None else list(names)
        self.as_push = Shared(Push([b"invalidate", what]))
        self.as_message = Shared(Push([b"message", CHANNEL, what]))


EVERYTHING = None


class Tracking:
    def __init__(self, host: SessionHost, pubsub: PubSub) -> None:
        self._host = host
        self._pubsub = pubsub
        # `Notifications`, which is built later, sets this. It is called when a session begins or
        # ends to track.
        self.on_trackers_changed: Callable[[], None] = lambda: None
        self._trackers: dict[Session, Tracker] = {}
        # Session ids by key. The key that was read first is in front, and is dropped first. As in
        # Redis, a name is the same key in every database. The id of a session that has left is
        # ignored when a message is sent.
        self._readers: OrderedDict[bytes, dict[int, None]] = OrderedDict()
        self.total_items = 0
        self._prefixes: dict[bytes, Prefix] = {}
        # Keys for the session of the running command, which gets the message after its reply.
        self._late: list[bytes | None] = []
        self.has_news = False  # for sessions that track prefixes

    def __len__(self) -> int:
        return len(self._trackers)

    @property
    def total_keys(self) -> int:
        return len(self._readers)

    @property
    def total_prefixes(self) -> int:
        return len(self._prefixes)

    # -- trackers -----------------------------------------------------------------------------

    def get(self, session: Session) -> Tracker | None:
        return self._trackers.get(session)

    def begin(self, session: Session, tracker: Tracker) -> None:
        """Begin to track, or change the options; prefixes are added to the present ones."""
        old = self._trackers.get(session)
        if tracker.bcast:
            tracker.prefixes |= old.prefixes if old is not None else set()
            for name in tracker.prefixes:
                self._prefixes.setdefault(name, Prefix()).sessions[session] = tracker
        elif old is not None:
            tracker.caching = old.caching
        self._trackers[session] = tracker
        session.modes |= TRACKING
        self.on_trackers_changed()

    def end(self, session: Session) -> None:
        tracker = self._trackers.pop(session, None)
        if tracker is None:
            return
        session.modes &= ~TRACKING
        for name in tracker.prefixes:
            prefix = self._prefixes[name]
            del prefix.sessions[session]
            if not prefix.sessions:
                del self._prefixes[name]
        self.on_trackers_changed()

    def forget(self, session: Session) -> None:
        """Forget a session that has left. If no other session tracks, forget all keys."""
        self.end(session)
        if not self._trackers and self._readers:
            self._clear()

    # -- what was read ------------------------------------------------------------------------

    def remember(self, session: Session, command: Command, argv: list[bytes]) -> None:
        if "readonly" not in command.flags or "scripting" in command.categories:
            return
        try:
            names = command.key_names(argv)
        except IndexError:
            return  # the command was not well-formed
        self.remember_keys(session, names)

    def remember_keys(self, session: Session, names: Iterable[bytes]) -> None:
        tracker = self._trackers.get(session)
        if (
            tracker is None
            or tracker.bcast
            or (tracker.optin and not tracker.caching)
            or (tracker.optout and tracker.caching)
        ):
            return
        for name in names:
            readers = self._readers.setdefault(name, {})
            if session.id not in readers:
                readers[session.id] = None
                self.total_items += 1
        self.limit()

    def limit(self) -> None:
        """Drop the oldest keys beyond `tracking-table-max-keys`; their readers get an
        invalidation."""
        most = self._host.config.tracking_table_max_keys
        while len(self._readers) > most > 0:
            self._invalidate(next(iter(self._readers)), is_change=False)

    def command_ended(self, session: Session, command: Command | None) -> None:
        """End the effect of CLIENT CACHING, which holds for one command, or for one transaction."""
        is_client = command is not None and command.name.startswith("client|")
        if session.multi is None and not is_client:
            tracker = self._trackers.get(session)
            if tracker is not None:
                tracker.caching = False

    # -- what changed -------------------------------------------------------------------------

    def changed(self, name: bytes, writer: Session | None) -> None:
        for beginning, prefix in self._prefixes.items():
            if name.startswith(beginning):
                prefix.changed[name] = writer
                self.has_news = True
        if name in self._readers:
            self._invalidate(name)

    def _invalidate(self, name: bytes, *, is_change: bool = True) -> None:
        host = self._host
        readers = self._readers.pop(name)
        self.total_items -= len(readers)
        invalidation = Invalidation((name,))
        for session_id in readers:
            session = host.sessions.get(session_id)
            tracker = self._trackers.get(session) if session is not None else None
            if session is None or tracker is None or tracker.bcast:
                continue
            if session is not host.running:
                self._tell(session, tracker, invalidation)
            elif not (tracker.noloop and is_change):
                self._late.append(name)

    def flushed(self) -> None:
        """FLUSHDB or FLUSHALL: all sessions that track forget all keys."""
        invalidation = Invalidation(EVERYTHING)
        for session, tracker in list(self._trackers.items()):
            if session is self._host.running:
                self._late.append(EVERYTHING)
            else:
                self._tell(session, tracker, invalidation)
        self._clear()

    def _clear(self) -> None:
        self._readers.clear()
        self.total_items = 0

    # -- telling ------------------------------------------------------------------------------

    def tell_late(self, session: Session) -> None:
        """Send the invalidations that a session has caused itself, after the reply to its
        command."""
        if not self._late:
            return
        late, self._late = self._late, []
        tracker = self._trackers.get(session)
        if tracker is not None:
            for name in late:
                self._tell(session, tracker, Invalidation(None if name is None else (name,)))

    def broadcast(self) -> None:
        """Send one message for each prefix under which keys changed. Called at the end of a
        turn."""
        if not self.has_news:
            return
        self.has_news = False
        for _, prefix in sorted(self._prefixes.items()):
            changed, prefix.changed = prefix.changed, {}
            names = sorted(changed)
            invalidation = Invalidation(names)
            for session, tracker in list(prefix.sessions.items()) if names else ():
                if not tracker.noloop:
                    self._tell(session, tracker, invalidation)
                elif others := [name for name in names if changed[name] is not session]:
                    self._tell(session, tracker, Invalidation(others))

    def _tell(self, session: Session, tracker: Tracker, invalidation: Invalidation) -> None:
        target: Session | None = session
        if tracker.redirect:
            target = self._host.sessions.get(tracker.redirect)
        if target is None or target.closing:
            tracker.is_broken = True
            if session.protocol > 2:
                broken = Shared(Push([b"tracking-redir-broken", tracker.redirect]))
                self._pubsub.send(broken, session)
        elif target.protocol > 2:
            self._pubsub.send(invalidation.as_push, target)
        elif tracker.redirect and target.modes & SUBSCRIBED:
            self._pubsub.send(invalidation.as_message, target)
