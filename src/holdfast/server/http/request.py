"""The head of an HTTP request, and the bytes of an answer. No I/O.

It understands the part of HTTP/1.1 that GET and HEAD need: no bodies, and one request for each
connection. docs/decisions/0031-metrics.md says why it is no library.
"""

import re
from http import HTTPStatus
from typing import NamedTuple

MOST_HEAD_BYTES = 8192

_END = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE = re.compile(rb"([!-~]+) ([!-~]+) HTTP/(\d)\.(\d)")
_FIELD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00\r\n]*")
_AUTHORITY = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)

TEXT = "text/plain; charset=utf-8"


class Request(NamedTuple):
    path: bytes  # as it was sent, without the query
    is_head: bool


class Answer(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = TEXT

    def encode(self, *, is_head: bool = False) -> bytes:
        lines = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            f"Content-Type: {self.content_type}",
            f"Content-Length: {len(self.body)}",
            "Cache-Control: no-store",
            "Connection: close",
        ]
        if self.status is HTTPStatus.METHOD_NOT_ALLOWED:
            lines.append("Allow: GET, HEAD")
        head = "\r\n".join([*lines, "", ""]).encode()
        return head if is_head else head + self.body


class BadRequestError(Exception):
    """The request is refused; `answer` says why."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.answer = Answer(status, f"{sentence}\n".encode())


def read_request(received: bytes) -> Request | None:
    """The request in the bytes so far; None if they are not complete. Raises BadRequestError."""
    end = _END.search(received, 0, MOST_HEAD_BYTES)
    if end is None:
        if len(received) >= MOST_HEAD_BYTES:
            raise BadRequestError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the head of a request has at most {MOST_HEAD_BYTES} bytes",
            )
        return None
    first, *fields = re.split(rb"\r?\n", received[: end.start()])
    line = _REQUEST_LINE.fullmatch(first)
    if line is None or not all(map(_FIELD.fullmatch, fields)):
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "this is no HTTP/1.1 request")
    method, target, major, _ = line.groups()
    if major != b"1":
        raise BadRequestError(
            HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "this server speaks HTTP/1.1 and HTTP/1.0"
        )
    if method not in (b"GET", b"HEAD"):
        raise BadRequestError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered here")
    path = _AUTHORITY.sub(b"", target, count=1) if target[:1] != b"/" else target
    return Request(re.split(rb"[?#]", path, maxsplit=1)[0], method == b"HEAD")
