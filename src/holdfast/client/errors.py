"""The errors of the client. Each says whether the command may have run. No I/O.

Four domains: `client` (the connection), `protocol` (bytes that are not RESP), `server` (an
error reply) and `adapter` (a reply that is not of the requested type).
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
    """The connection is in a state that rejects requests. The command was never sent."""


class ClosedError(NotConnectedError):
    """The client was closed, by its user or because it may not reconnect."""

    @property
    def is_retryable(self) -> bool:
        """Never: a closed client stays closed."""
        return False


class QueueFullError(ClientError):
    """Too many requests, or too many bytes of them, are pending. This one was never sent."""


class ConnectError(ClientError):
    """The connection could not be opened, or the handshake was refused."""


class ConnectTimeoutError(ConnectError, TimeoutError):
    """Connecting took longer than `connect_timeout_s`."""

    is_timeout = True


class ConnectionLostError(ClientError):
    """The connection broke before the reply came."""


class BadReplyError(ConnectionLostError, ProtocolError):
    """The server sent bytes that are no valid reply, so the connection was given up."""

    domain = "protocol"


class NotReplicatedError(ClientError):
    """The command has run, but fewer replicas than asked for have its effect. A failover may lose
    it, or may not."""

    def __init__(self, count: int, wanted: int) -> None:
        super().__init__(
            f"{count} of {wanted} replicas have this write; a failover could lose it",
            may_have_executed=True,
        )
        self.count = count
        self.wanted = wanted


class RequestTooLargeError(ClientError):
    """The request has more bytes than may be pending. It was never sent, and a retry fails too."""

    @property
    def is_retryable(self) -> bool:
        """Never: the request stays too large."""
        return False


class ReplyTooLargeError(ClientError):
    """The reply is larger than the options allow. It was read and dropped; the command ran."""

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_executed=True)


class RequestTimeoutError(ClientError, TimeoutError):
    """This call took too long. The connection and all other calls on it go on."""

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
        """Whether the server did nothing now and may do it later, as with LOADING."""
        return self.code in _PASSING


# The server did nothing now, and may do it later.
_PASSING = frozenset(
    {b"LOADING", b"TRYAGAIN", b"CLUSTERDOWN", b"MASTERDOWN", b"BUSY", b"MOVED", b"ASK"}
)


class ConversionError(HoldfastError):
    """The reply is not of the requested type. `path` is the place in it: `$["a"][0]`.

    `reply` is the whole unconverted reply, so that a popped element is not lost.
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
