"""Client-side caching: which session has read which keys, and telling it when they change.

CLIENT TRACKING is parsed in families/tracking.py; the engine calls `remember` after a command of
a session that tracks, `changed` comes from the keyspace's notifications.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.commands.table import Command
from holdfast.resp import Push, Reply
from holdfast.server.session import SUBSCRIBED, TRACKING, Session
from holdfast.server.unasked import Shared

if TYPE_CHECKING:
    from holdfast.server.engine import Engine

CHANNEL = b"__redis__:invalidate"


@dataclass(slots=True)
class Tracker:
    """How one session wants to be told."""

    redirect: int = 0  # the id of the session to tell instead; 0: itself
    bcast: bool = False
    optin: bool = False
    optout: bool = False
    noloop: bool = False
    prefixes: set[bytes] = field(default_factory=set)
    caching: bool = False  # CLIENT CACHING was said about the next command
    is_broken: bool = False  # whom to redirect to is gone


class Prefix:
    """Who is told of all keys that begin alike, and those that changed in this turn."""

    __slots__ = ("changed", "sessions")

    def __init__(self) -> None:
        self.sessions: dict[Session, Tracker] = {}
        self.changed: dict[bytes, Session | None] = {}  # and who changed them last


class Invalidation:
    """What is told, in the two forms that it can take."""

    __slots__ = ("as_message", "as_push")

    def __init__(self, names: Iterable[bytes] | None) -> None:
        """None: all keys."""
        what: Reply = None if names is None else list(names)
        self.as_push = Shared(Push([b"invalidate", what]))
        self.as_message = Shared(Push([b"message", CHANNEL, what]))


EVERYTHING = None


class Tracking:
    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._trackers: dict[Session, Tracker] = {}
        # Session ids by key, the key read first in front: the first to be given up. As in Redis,
        # a name is the same key in every database, and whoever left is found missing when told.
        self._readers: OrderedDict[bytes, dict[int, None]] = OrderedDict()
        self.total_items = 0
        self._prefixes: dict[bytes, Prefix] = {}
        self._late: list[bytes | None] = []  # for the session whose command runs: not before
        self.has_news = False  # for those who track prefixes

    def __len__(self) -> int:
        return len(self._trackers)

    @property
    def total_keys(self) -> int:
        return len(self._readers)

    @property
    def total_prefixes(self) -> int:
        return len(self._prefixes)

    # -- who tracks ---------------------------------------------------------------------------

    def get(self, session: Session) -> Tracker | None:
        return self._trackers.get(session)

    def begin(self, session: Session, tracker: Tracker) -> None:
        """Also to change the options; prefixes come in addition to those there are."""
        old = self._trackers.get(session)
        if tracker.bcast:
            tracker.prefixes |= old.prefixes if old is not None else set()
            for name in tracker.prefixes:
                self._prefixes.setdefault(name, Prefix()).sessions[session] = tracker
        elif old is not None:
            tracker.caching = old.caching
        self._trackers[session] = tracker
        session.gate |= TRACKING
        self._engine.notifications.update()

    def end(self, session: Session) -> None:
        tracker = self._trackers.pop(session, None)
        if tracker is None:
            return
        session.gate &= ~TRACKING
        for name in tracker.prefixes:
            prefix = self._prefixes[name]
            del prefix.sessions[session]
            if not prefix.sessions:
                del self._prefixes[name]
        self._engine.notifications.update()

    def forget(self, session: Session) -> None:
        """It left. Nobody who tracks: nobody to tell of what was read."""
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
            return  # it was no well-formed command
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
        """Give up the oldest keys beyond `tracking-table-max-keys`: whoever has them, drop them."""
        most = self._engine.config.tracking_table_max_keys
        while len(self._readers) > most > 0:
            self._invalidate(next(iter(self._readers)))

    def said(self, session: Session, command: Command | None) -> None:
        """A command is over. CLIENT CACHING was about one command, or one transaction."""
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

    def _invalidate(self, name: bytes) -> None:
        engine = self._engine
        readers = self._readers.pop(name)
        self.total_items -= len(readers)
        invalidation = Invalidation((name,))
        for session_id in readers:
            session = engine.sessions.get(session_id)
            tracker = self._trackers.get(session) if session is not None else None
            if session is None or tracker is None or tracker.bcast:
                continue
            if session is not engine.running:
                self._tell(session, tracker, invalidation)
            elif not tracker.noloop:
                self._late.append(name)

    def flushed(self) -> None:
        """FLUSHDB or FLUSHALL: everybody forgets everything."""
        invalidation = Invalidation(EVERYTHING)
        for session, tracker in list(self._trackers.items()):
            if session is self._engine.running:
                self._late.append(EVERYTHING)
            else:
                self._tell(session, tracker, invalidation)
        self._clear()

    def _clear(self) -> None:
        self._readers.clear()
        self.total_items = 0

    # -- telling ------------------------------------------------------------------------------

    def tell_late(self, session: Session) -> None:
        """What a session has changed itself comes after the reply that acknowledges it."""
        if not self._late:
            return
        late, self._late = self._late, []
        tracker = self._trackers.get(session)
        if tracker is not None:
            for name in late:
                self._tell(session, tracker, Invalidation(None if name is None else (name,)))

    def broadcast(self) -> None:
        """At the end of a turn: each prefix is told of once, whatever happened under it."""
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
            target = self._engine.sessions.get(tracker.redirect)
        if target is None:
            tracker.is_broken = True
            if session.protocol > 2:
                Shared(Push([b"tracking-redir-broken", tracker.redirect])).send_to(session)
        elif target.protocol > 2:
            invalidation.as_push.send_to(target)
        elif tracker.redirect and target.gate & SUBSCRIBED:
            invalidation.as_message.send_to(target)
