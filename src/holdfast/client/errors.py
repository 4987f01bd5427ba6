"""What can go wrong for a caller, and what that says about the command. No I/O.

Four domains: `client` (the connection), `protocol` (bytes that are not RESP), `server` (an
error reply) and `adapter` (a reply that is not of the type asked for).
"""

from typing import Any, ClassVar, Literal

from holdfast.errors import CommandError, HoldfastError, ProtocolError

Domain = Literal["client", "protocol", "server", "adapter"]


class ClientError(HoldfastError):
    """A call that got no reply. `may_have_executed` says whether the server may have run it."""

    domain: ClassVar[Domain] = "client"
    is_timeout: ClassVar[bool] = False

    def __init__(self, message: str, *, may_have_executed: bool = False) -> None:
        super().__init__(message)
        self.may_have_executed = may_have_executed

    @property
    def is_retryable(self) -> bool:
        """Whether sending the command again cannot run it twice."""
        return not self.may_have_executed


class NotConnectedError(ClientError):
    """Rejected in this state; never sent."""


class ClosedError(NotConnectedError):
    """The client was closed, by its user or because it may not reconnect."""

    @property
    def is_retryable(self) -> bool:
        return False


class QueueFullError(ClientError):
    """Too many requests, or bytes of them, have no reply yet; never sent."""


class ConnectError(ClientError):
    """No connection: it could not be opened, or the handshake was refused."""


class ConnectTimeoutError(ConnectError, TimeoutError):
    is_timeout = True


class ConnectionLostError(ClientError):
    """The connection broke before the reply came."""


class BadReplyError(ConnectionLostError, ProtocolError):
    """The connection was given up because of what came over it."""

    domain = "protocol"


class RequestTooLargeError(ClientError):
    """One request alone has more bytes than may be pending; never sent. To retry is of no use."""

    @property
    def is_retryable(self) -> bool:
        return False


class ReplyTooLargeError(ClientError):
    """The reply is larger than the options allow. It was read and dropped; the command ran."""

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_executed=True)


class RequestTimeoutError(ClientError, TimeoutError):
    """This call took too long. The connection, and every other call on it, goes on."""

    is_timeout = True


class TransactionAbortedError(ClientError):
    """A watched key changed, so nothing of the transaction ran. Read again and retry."""


class ServerError(CommandError):
    """An error reply."""

    domain: ClassVar[Domain] = "server"
    is_timeout: ClassVar[bool] = False
    may_have_executed: ClassVar[bool] = False

    @property
    def is_retryable(self) -> bool:
        return self.code in _PASSING


# The server says that it did nothing now and may do it later.
_PASSING = frozenset(
    {b"LOADING", b"TRYAGAIN", b"CLUSTERDOWN", b"MASTERDOWN", b"BUSY", b"MOVED", b"ASK"}
)


class ConversionError(HoldfastError):
    """The reply is not of the type that was asked for. `path` is where: `$["a"][0]`.

    `reply` is all of it, as it came: an element that was popped is not lost.
    """

    domain: ClassVar[Domain] = "adapter"
    is_timeout: ClassVar[bool] = False
    is_retryable: ClassVar[bool] = False
    may_have_executed: ClassVar[bool] = True

    def __init__(self, problem: str, path: str = "$") -> None:
        super().__init__(f"{path}: {problem}")
        self.problem = problem
        self.path = path
        self.reply: Any = None
