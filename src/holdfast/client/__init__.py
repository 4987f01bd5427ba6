"""The client: it talks to Holdfast, Redis or Valkey by URL and knows nothing of our server.

`holdfast.connect` makes a client. This package exports the other names that users need; all the
rest is internal.
"""

from holdfast.client.api.client import Client
from holdfast.client.api.client_script import Script
from holdfast.client.api.subscriptions import Message, PubSub
from holdfast.client.api.transaction import Transaction
from holdfast.client.errors import (
    BadReplyError,
    ClientError,
    ClosedError,
    ConnectError,
    ConnectionLostError,
    ConnectTimeoutError,
    ConversionError,
    NotConnectedError,
    NotReplicatedError,
    QueueFullError,
    ReplyTooLargeError,
    RequestTimeoutError,
    RequestTooLargeError,
    ServerError,
    TransactionAbortedError,
)
from holdfast.client.protocol.connection_state import State
from holdfast.client.protocol.convert import Failure, optional
from holdfast.client.protocol.request import Request
from holdfast.client.transport.hooks import ConnectionEvent, Hooks, RequestFinish, RequestStart
from holdfast.client.transport.options import Backoff

__all__ = [
    "Backoff",
    "BadReplyError",
    "Client",
    "ClientError",
    "ClosedError",
    "ConnectError",
    "ConnectTimeoutError",
    "ConnectionEvent",
    "ConnectionLostError",
    "ConversionError",
    "Failure",
    "Hooks",
    "Message",
    "NotConnectedError",
    "NotReplicatedError",
    "PubSub",
    "QueueFullError",
    "ReplyTooLargeError",
    "Request",
    "RequestFinish",
    "RequestStart",
    "RequestTimeoutError",
    "RequestTooLargeError",
    "Script",
    "ServerError",
    "State",
    "Transaction",
    "TransactionAbortedError",
    "optional",
]
