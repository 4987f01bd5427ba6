"""The client: it talks to Holdfast, Redis or Valkey by URL and knows nothing of our server.

`holdfast.connect` makes one. What else users name is here; the rest is nobody's business.
"""

from holdfast.client.client import Client
from holdfast.client.convert import Failure, optional
from holdfast.client.errors import (
    BadReplyError,
    ClientError,
    ClosedError,
    ConnectError,
    ConnectionLostError,
    ConnectTimeoutError,
    ConversionError,
    NotConnectedError,
    QueueFullError,
    ReplyTooLargeError,
    RequestTimeoutError,
    RequestTooLargeError,
    ServerError,
    TransactionAbortedError,
)
from holdfast.client.hooks import ConnectionEvent, Hooks, RequestFinish, RequestStart
from holdfast.client.options import Backoff
from holdfast.client.pubsub import Message, PubSub
from holdfast.client.request import Request
from holdfast.client.script import Script
from holdfast.client.state import State
from holdfast.client.transaction import Transaction

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
