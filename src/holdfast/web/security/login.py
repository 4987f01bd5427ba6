"""One user of the server: the connections that carry the commands of that user."""

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast import connect
from holdfast.client import Backoff, Client, ServerError
from holdfast.errors import HoldfastError
from holdfast.web.live.recent import Recent
from holdfast.web.security.permissions import (
    Permissions,
    permissions_of,
    quiet_permissions_of,
)

if TYPE_CHECKING:
    from holdfast.client.transport.options import ConnectOptions

DEFAULT_USER = "default"
MOST_REPLY_BYTES = 64 << 20  # pages read parts of values, and a part may be this large
MOST_REPLY_ELEMENTS = 1 << 20
PERMISSIONS_S = 30.0  # pages use permissions up to this age
REFUSALS = (b"NOAUTH", b"WRONGPASS", b"NOPERM")


class RefusedError(HoldfastError):
    """The server does not accept this user."""


class Login:
    """A login. `is_personal`: a user has signed in. Otherwise it is the default user without a
    password, which all visitors share."""

    def __init__(self, url: str, db: int, username: str = "", password: str | None = None) -> None:
        self.username = username or DEFAULT_USER
        self.is_personal = password is not None
        self.permissions = Permissions()
        self._url = url
        self._db = db
        self._options: ConnectOptions = {
            "username": username or None,
            "password": password,
            "client_name": "holdfast-dashboard",
            "backoff": Backoff(immediate=1, cap_s=1.0),
            "close_grace_s": 0.0,
            "max_reply_bytes": MOST_REPLY_BYTES,
            "max_reply_elements": MOST_REPLY_ELEMENTS,
        }
        self.readers: dict[Any, Any] = {}  # by kind and database
        self.recent = Recent()
        self._clients: dict[int, Client] = {}
        self._opening = asyncio.Lock()
        self._asked_s: float | None = None  # the time of the last `refresh`

    @property
    def db(self) -> int:
        """The database of the URL."""
        return self._db

    async def open(self, operator: Client | None) -> None:
        """Connect, and read the permissions of the user. Raises RefusedError or another
        HoldfastError."""
        client = await self.client()
        self.permissions = await permissions_of(client, self.username, operator)

    async def refresh(self, operator: Client | None, now_s: float) -> None:
        """Read the permissions again, if they are old."""
        if self._asked_s is not None and abs(now_s - self._asked_s) < PERMISSIONS_S:
            return
        is_first, self._asked_s = self._asked_s is None, now_s  # other requests need not ask
        client = self._clients.get(self._db)
        if is_first or client is None:
            return  # `open` has just read them
        self.permissions = (
            await quiet_permissions_of(client, self.username, operator) or self.permissions
        )

    async def client(self, db: int | None = None) -> Client:
        """The client for a database. It reconnects by itself."""
        db = self._db if db is None else db
        async with self._opening:
            client = self._clients.get(db)
            if client is not None:
                return client
            options: ConnectOptions = {**self._options, "db": db}
            client = connect(self._url, **options)
            try:
                await client.connect()
            except HoldfastError as error:
                await client.close()
                refused = _refused(error)
                if refused is None:
                    raise
                raise refused from None
            self._clients[db] = client
            return client

    def elsewhere(self, address: str, patience_s: float) -> Client:
        """A client of another server, with this user's name and password. It is not connected, and
        the caller closes it."""
        scheme = "rediss" if self._url.startswith("rediss") else "redis"
        url = f"unix://{address}" if address.startswith("/") else f"{scheme}://{address}"
        options: ConnectOptions = {
            **self._options,
            "reconnect": False,
            "connect_timeout_s": min(patience_s, 5.0),
            "request_timeout_s": patience_s,
        }
        return connect(url, **options)

    async def close(self) -> None:
        while self._clients:
            await self._clients.popitem()[1].close()


def _refused(error: HoldfastError) -> RefusedError | None:
    """The refusal of a handshake, whether the caller waited for it or a reconnection met it."""
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, ServerError) and cause.code in REFUSALS:
            return RefusedError(str(cause))
        cause = cause.__cause__
    return None


def is_refused(error: HoldfastError) -> bool:
    """Whether the server reports that the connection has no valid login (any more)."""
    if isinstance(error, RefusedError):
        return True
    if isinstance(error, ServerError):
        return error.code == b"NOAUTH"
    return _refused(error) is not None
