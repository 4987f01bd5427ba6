"""The dashboard without HTTP: the files, the poller and the logins that all requests share."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from jinja2 import Environment

from holdfast import connect
from holdfast.client import Backoff, Client
from holdfast.client.transport.options import ConnectOptions, parse_server_url
from holdfast.errors import ConfigError, HoldfastError
from holdfast.web.history.history_file import HistoryFile
from holdfast.web.live.hub import Hub
from holdfast.web.live.poller import Poller
from holdfast.web.live.recent import Recent
from holdfast.web.rendering import environment, live_events
from holdfast.web.security.attempts import SignInAttempts
from holdfast.web.security.login import Login, RefusedError, is_refused
from holdfast.web.security.sessions import Session, Sessions
from holdfast.web.settings import Settings

log = logging.getLogger(__name__)

REFUSED_FOR_S = 2.0  # for this time it is remembered that the default user needs a password


class Dashboard:
    def __init__(self, settings: Settings, now_s: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.now_s = now_s
        self.on_started: Callable[[], None] = lambda: None  # called when the sockets listen
        self.at_stop: list[Callable[[], None]] = []  # closes what pages have opened
        target = parse_server_url(settings.url).options
        self.address = target.address
        self.db = target.db
        self.sessions = Sessions(now_s)
        self.attempts = SignInAttempts()
        self.hub = Hub()
        self.recent = Recent()  # figures that are the same for all users
        self.history = HistoryFile(settings.history)
        self.templates: Environment = environment()
        self._operator: Client | None = None
        self._poller: Poller | None = None
        self._task: asyncio.Task[None] | None = None
        self._open_login: Login | None = None
        self._open_lock = asyncio.Lock()
        self._refused_at_s = -REFUSED_FOR_S

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to ask the server, whether it answers or not."""
        operator = self._operator = self._new_operator()
        self._poller = Poller(
            operator,
            self.address,
            self.hub,
            self.history,
            lambda poller: live_events(self.templates, poller),
            self.now_s,
        )
        self._task = asyncio.create_task(self._run(operator, self._poller))
        self.on_started()

    def _new_operator(self) -> Client:
        """The client with the login of the URL. It is not connected yet."""
        options: ConnectOptions = {
            "client_name": "holdfast-dashboard",
            "backoff": Backoff(immediate=1, cap_s=1.0),
            "close_grace_s": 0.0,
        }
        if self.settings.password is not None:
            options["password"] = self.settings.password
        return connect(self.settings.url, **options)

    async def _run(self, operator: Client, poller: Poller) -> None:
        """A client whose first attempt has failed is closed, so each attempt has one of its own."""
        while not operator.is_connected:
            try:
                await operator.connect()
            except HoldfastError as error:
                await operator.close()
                poller.is_refused = is_refused(error)
                poller.failed(error)
                if poller.is_refused:  # the login of the first user who signs in is used
                    break
                await asyncio.sleep(1.0)
                operator = self._operator = self._new_operator()
                poller.ask_with(operator)
        await poller.run()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        while self.at_stop:
            self.at_stop.pop()()
        self.hub.close()
        self.sessions.end_all()
        await self.close_dropped()
        for closed in (self._open_login, self._operator):
            if closed is not None:
                await closed.close()
        self.history.close()

    @property
    def poller(self) -> Poller:
        assert self._poller is not None, "the dashboard was not started"
        return self._poller

    # -- logins -------------------------------------------------------------------------------

    async def sign_in(self, username: str, password: str) -> Session:
        """Raises RefusedError if the server does not accept the login, and HoldfastError for other
        problems."""
        login = Login(self.settings.url, self.db, username, password)
        try:
            await login.open(self._operator)
        except HoldfastError:
            await login.close()
            raise
        poller = self.poller
        if poller.is_refused and not poller.is_lent and login.permissions.may("INFO"):
            poller.lend(await login.client())
            await poller.poll()
        return Session(login)

    async def refresh(self, login: Login) -> None:
        await login.refresh(self._operator, self.now_s())

    async def visitor(self) -> Session:
        """The session of a browser without one. It belongs to the default user, if that user needs
        no password and only this machine can reach the dashboard. Raises HoldfastError if that is
        unknown."""
        if self.settings.is_public:
            return Session()
        return Session(await self._default_login())

    async def _default_login(self) -> Login | None:
        async with self._open_lock:
            if self._open_login is not None:
                return self._open_login
            if 0 <= self.now_s() - self._refused_at_s < REFUSED_FOR_S:
                return None
            login = Login(self.settings.url, self.db)
            try:
                await login.open(self._operator)
            except RefusedError:
                self._refused_at_s = self.now_s()
                await login.close()
                return None
            except HoldfastError:
                await login.close()
                raise
            self._open_login = login
            return login

    async def needs_password(self) -> bool:
        """Whether the server refuses users without a password."""
        login = Login(self.settings.url, self.db)
        try:
            await login.client()
        except RefusedError:
            return True
        finally:
            await login.close()
        return False

    async def forget_login(self, login: Login) -> None:
        """Drop a login that the server has refused: a password was set, or the user was deleted."""
        if login is self._open_login:
            self._open_login = None
        await login.close()

    async def close_dropped(self) -> None:
        while self.sessions.dropped:
            await self.sessions.dropped.pop().close()


async def check_public(settings: Settings) -> None:
    """Raises ConfigError if other machines could reach a server that has no password."""
    if not settings.is_public:
        return
    dashboard = Dashboard(Settings(settings.url))
    try:
        if await dashboard.needs_password():
            return
    except HoldfastError as error:
        raise ConfigError(
            f"--bind {' '.join(settings.bind)}: it cannot be checked whether the server has a"
            f" password: {error}"
        ) from None
    finally:
        await dashboard.stop()
    raise ConfigError(
        f"--bind {' '.join(settings.bind)}: other machines could reach the dashboard, and the"
        " server has no password: set requirepass, or bind to 127.0.0.1"
    )
