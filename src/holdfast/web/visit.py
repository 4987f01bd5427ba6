"""One request as a page sees it: the user, the permissions of that user, and the answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from holdfast.client import Client, ServerError
from holdfast.client import Request as Commands
from holdfast.client.protocol.request import Argument, as_bytes
from holdfast.errors import HoldfastError, StorageError
from holdfast.web.names import line_of, read_pairs
from holdfast.web.readers.pace import Pace, pace_for
from holdfast.web.security.redaction import safe_words
from holdfast.web.security.sessions import Session

if TYPE_CHECKING:
    from holdfast.web.dashboard import Dashboard
    from holdfast.web.security.permissions import Permissions

log = logging.getLogger(__name__)

Words = Sequence[Argument]
R = TypeVar("R")
T = TypeVar("T")
REFRESH = "x-refresh"  # app.js sends it when a page loads a part of itself again
MOST_DETAIL = 300


class BadRequestError(Exception):
    """A mistake in a form, or a request that our pages would not send. The text is one sentence."""


class Visit:
    def __init__(self, dashboard: "Dashboard", request: Request, session: Session) -> None:
        self.dashboard = dashboard
        self.request = request
        self.session = session
        self.cookie = ""
        self.section = ""  # the address of the page in the navigation
        self.query = read_pairs(request.scope["query_string"])
        self.form: dict[str, str] = {}
        self.db = self._db(self.query)

    # -- the request --------------------------------------------------------------------------

    def read_form(self, body: bytes) -> None:
        self.form = read_pairs(body)
        if "db" in self.form:
            self.db = self._db(self.form)

    def _db(self, fields: dict[str, str]) -> int:
        login = self.session.login
        text = fields.get("db", "")
        if not text:
            return 0 if login is None else login.db
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise BadRequestError("the database is a number")
        return int(text)

    def number(self, name: str, default: int, least: int = 0, most: int = 1 << 62) -> int:
        text = self.query.get(name, "")
        try:
            return min(max(int(text), least), most) if text and len(text) < 20 else default
        except ValueError:
            return default

    @property
    def path(self) -> str:
        path: str = self.request.url.path
        return path

    @property
    def address(self) -> str:
        return self.request.client.host if self.request.client is not None else "?"

    def replace_session(self, session: Session | None) -> None:
        """Give the browser a new cookie, and end the session of the old one."""
        sessions = self.dashboard.sessions
        sessions.end(self.cookie)
        self.session = Session() if session is None else session
        self.cookie = "" if session is None else sessions.add(session)

    # -- the server, as this user --------------------------------------------------------------

    @property
    def username(self) -> str:
        return "" if self.session.login is None else self.session.login.username

    @property
    def permissions(self) -> "Permissions | None":
        return None if self.session.login is None else self.session.login.permissions

    def may(self, *commands: str) -> bool:
        return self.permissions is not None and self.permissions.may(*commands)

    async def client(self) -> Client:
        assert self.session.login is not None
        return await self.session.login.client(self.db)

    async def ask(self, *words: Argument) -> Any:
        """One reply. Raises HoldfastError."""
        client = await self.client()
        return await client.exec(str(words[0]), *words[1:])

    async def ask_all(self, commands: Sequence[Words]) -> list[Any]:
        """The replies; an error reply is an item. Raises HoldfastError if the server does not
        answer."""
        client = await self.client()
        replies: list[Any] = await client.exec_dynamic(Commands(map(tuple, commands)), into=Any)
        for reply in replies:
            if isinstance(reply, HoldfastError) and not isinstance(reply, ServerError):
                raise reply
        return replies

    async def reader(self, kind: Callable[[Client], R]) -> R:
        """A reader for this user and database. All tabs share it, because it keeps data between
        requests."""
        assert self.session.login is not None
        key = kind, self.db
        readers = self.session.login.readers
        if key not in readers:
            readers[key] = kind(await self.client())
        found: R = readers[key]
        return found

    async def recent(self, name: Hashable, fresh_s: float, look: Callable[[], Awaitable[T]]) -> T:
        """The result of `look`, or the result that another tab of this user got a moment ago, so
        that a thousand tabs cost the server as much as one. For a page that the user opens it is
        read again, because the user may have changed something elsewhere just before."""
        assert self.session.login is not None
        if REFRESH not in self.request.headers:
            fresh_s = 0.0
        found: T = await self.session.login.recent.get((name, self.db), fresh_s, look)
        return found

    @property
    def pace(self) -> Pace:
        """How much work a page may cause on the server now."""
        return pace_for(self.dashboard.poller.cpu_share)

    async def change(self, action: str, *words: Argument) -> Any:
        """Run a command that changes data. It is noted in the audit trail before it is sent."""
        detail = line_of(safe_words([as_bytes(word) for word in words]), MOST_DETAIL)
        async with self.audited(action, detail):
            return await self.ask(*words)

    def audited(self, action: str, detail: str) -> "Audited":
        """Audit a change that is more than one command: note it, run the body, note the outcome."""
        return Audited(self, action, detail)

    # -- the answer ---------------------------------------------------------------------------

    def token(self, path: str) -> str:
        return self.session.tokens.issue(path, self.dashboard.now_s())

    def render(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        page = self.dashboard.templates.get_template(template)
        text = page.render(visit=self, dashboard=self.dashboard, **values)
        # Surrogates stand for bytes that are not text; a page never shows them as such.
        return HTMLResponse(text.encode("utf-8", "backslashreplace"), status)

    def say(self, message: str) -> None:
        """Show a message on the next page."""
        self.session.messages.append(message)

    def go(self, path: str, **query: str) -> Response:
        """Redirect to another page."""
        target = f"{path}?{urlencode(query, errors='surrogateescape')}" if query else path
        return RedirectResponse(target, 303)

    def take_messages(self) -> list[str]:
        messages, self.session.messages = self.session.messages, []
        return messages


class Audited:
    def __init__(self, visit: Visit, action: str, detail: str) -> None:
        self._visit = visit
        if len(detail) > MOST_DETAIL:
            detail = f"{detail[:MOST_DETAIL]}… ({len(detail)} characters)"
        self._what = action, detail
        self._entry = 0

    async def __aenter__(self) -> None:
        visit = self._visit
        history = visit.dashboard.history
        now_s = visit.dashboard.now_s()
        row = now_s, visit.username, visit.address, *self._what
        self._entry = await asyncio.to_thread(history.audit, *row)  # the file may be locked

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        login = self._visit.session.login
        if login is not None:
            login.recent.forget()  # the next page shows the change
        outcome = "done" if error is None else f"failed: {error}"
        finished = self._visit.dashboard.history.finished
        try:
            await asyncio.to_thread(finished, self._entry, outcome[:MOST_DETAIL])
        except StorageError as failure:  # the change was made: the page must not say otherwise
            log.warning("how a change has ended is not noted: %s", failure)
