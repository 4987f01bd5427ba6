"""Errors say which side failed, whether it is a timeout, and whether the command may have run."""

import inspect

import pytest

from holdfast.client import errors
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
from holdfast.errors import CommandError, HoldfastError, ProtocolError

Anything = ClientError | ServerError | ConversionError

# error, domain, is_timeout, may_have_executed, is_retryable
SAYS: list[tuple[Anything, str, bool, bool, bool]] = [
    (NotConnectedError("x"), "client", False, False, True),
    (ClosedError("x"), "client", False, False, False),
    (ClosedError("x", may_have_executed=True), "client", False, True, False),
    (QueueFullError("x"), "client", False, False, True),
    (ConnectError("x"), "client", False, False, True),
    (ConnectTimeoutError("x"), "client", True, False, True),
    (ConnectionLostError("x", may_have_executed=True), "client", False, True, False),
    (BadReplyError("x", may_have_executed=True), "protocol", False, True, False),
    (RequestTimeoutError("x"), "client", True, False, True),
    (RequestTimeoutError("x", may_have_executed=True), "client", True, True, False),
    (RequestTooLargeError("x"), "client", False, False, False),
    (NotReplicatedError(1, 2), "client", False, True, False),
    (ReplyTooLargeError("x"), "client", False, True, False),
    (TransactionAbortedError("x"), "client", False, False, True),
    (ServerError("ERR x"), "server", False, False, False),
    (ServerError("WRONGTYPE x"), "server", False, False, False),
    *(
        (ServerError(f"{code} x"), "server", False, False, True)
        for code in ("LOADING", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "BUSY", "MOVED", "ASK")
    ),
    (ConversionError("x"), "adapter", False, True, False),
]


@pytest.mark.parametrize("row", SAYS, ids=lambda row: f"{type(row[0]).__name__}-{row[0]}")
def test_the_text_of_an_error(row: tuple[Anything, str, bool, bool, bool]) -> None:
    error, domain, is_timeout, may_have_executed, is_retryable = row
    assert error.domain == domain
    assert error.is_timeout is is_timeout
    assert error.may_have_executed is may_have_executed
    assert error.is_retryable is is_retryable
    assert isinstance(error, HoldfastError)
    assert isinstance(error, TimeoutError) is is_timeout


def test_every_error_is_in_the_table() -> None:
    shown = {type(row[0]) for row in SAYS} | {ClientError}
    ours = {kind for _, kind in inspect.getmembers(errors, inspect.isclass)}
    assert {kind for kind in ours if kind.__module__ == errors.__name__} == shown


def test_errors_are_caught_by_their_class() -> None:
    assert issubclass(ClosedError, NotConnectedError)
    assert issubclass(BadReplyError, ConnectionLostError)
    assert issubclass(BadReplyError, ProtocolError)
    assert issubclass(ServerError, CommandError)
    assert ServerError(b"NOSCRIPT No matching script").code == b"NOSCRIPT"
    assert ServerError(b"LOADING").code == b"LOADING"  # a word alone is one, too
    assert ServerError(b"LOADING").is_retryable
