"""Sessions, which are named by cookies. They are in memory, and end with the dashboard."""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.web.security.login import Login
from holdfast.web.security.tokens import FormTokens

IDLE_S = 12 * 3600
MOST_SESSIONS = 2_000


@dataclass(slots=True, eq=False)
class Session:
    """One browser. Without a login it can only sign in."""

    login: Login | None = None
    tokens: FormTokens = field(default_factory=FormTokens, repr=False)
    messages: list[str] = field(default_factory=list, repr=False)  # for the next page
    console: list[dict[str, object]] = field(default_factory=list, repr=False)
    seen_s: float = 0.0

    @property
    def is_signed_in(self) -> bool:
        return self.login is not None and self.login.is_personal


class Sessions:
    """Sessions by the hash of their cookie, so that the memory of this process has no valid
    cookie."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._by_hash: OrderedDict[bytes, Session] = OrderedDict()
        self.dropped: list[Login] = []  # the owner of the loop must close them

    def add(self, session: Session) -> str:
        """Add a session. Returns the value of its cookie."""
        cookie = secrets.token_urlsafe(32)
        session.seen_s = self._now_s()
        self._by_hash[_hash(cookie)] = session
        self._expire()
        return cookie

    def find(self, cookie: str) -> Session | None:
        key = _hash(cookie)
        session = self._by_hash.get(key)
        now_s = self._now_s()
        if session is None or now_s - session.seen_s > IDLE_S:
            self.end(cookie)
            return None
        session.seen_s = now_s
        self._by_hash.move_to_end(key)
        return session

    def end(self, cookie: str) -> None:
        session = self._by_hash.pop(_hash(cookie), None)
        if session is not None:
            self._drop(session)

    def end_all(self) -> None:
        while self._by_hash:
            self._drop(self._by_hash.popitem()[1])

    def __len__(self) -> int:
        return len(self._by_hash)

    def _expire(self) -> None:
        """Remove idle sessions, and the least used ones above the limit. Sessions without a
        signed-in user go first, because a program can create any number of them."""
        limit_s = self._now_s() - IDLE_S
        for key in [key for key, each in self._by_hash.items() if each.seen_s < limit_s]:
            self._drop(self._by_hash.pop(key))
        while len(self._by_hash) > MOST_SESSIONS:
            newest = next(reversed(self._by_hash))
            key = next(
                (k for k, each in self._by_hash.items() if not each.is_signed_in and k != newest),
                next(iter(self._by_hash)),
            )
            self._drop(self._by_hash.pop(key))

    def _drop(self, session: Session) -> None:
        """End the login of a signed-in user, and so the streams of that user's open pages. The
        streams of visitors stay open: their pages would come back at once with a new session, and
        another session would have to be removed."""
        if session.login is not None and session.login.is_personal:
            self.dropped.append(session.login)
            session.login = None


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()
