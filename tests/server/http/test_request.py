"""The heads of HTTP requests, without sockets."""

from http import HTTPStatus

import pytest

from holdfast.server.http.request import (
    MOST_HEAD_BYTES,
    Answer,
    BadRequestError,
    Request,
    read_request,
)


@pytest.mark.parametrize(
    ("sent", "request_"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Request(b"/metrics", False)),
        (b"HEAD /health HTTP/1.0\r\n\r\n", Request(b"/health", True)),
        (b"GET /ready?full=1#x HTTP/1.1\r\nHost: x\r\n\r\nrest", Request(b"/ready", False)),
        (b"GET http://a:1/ready HTTP/1.1\nHost: a:1\n\n", Request(b"/ready", False)),
        (b"GET /%00 HTTP/1.1\r\nHost:\r\n\r\n", Request(b"/%00", False)),
    ],
)
def test_requests_are_read(sent: bytes, request_: Request) -> None:
    assert read_request(sent) == request_


def test_a_request_is_complete_with_its_last_byte() -> None:
    sent = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    for end in range(len(sent) - 1):
        assert read_request(sent[:end]) is None, sent[:end]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics HTTP/2.0\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\n", 505),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: \x00\r\n\r\n", 400),
        (b"*1\r\n$4\r\nPING\r\n\r\n", 400),
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * MOST_HEAD_BYTES, 431),
    ],
)
def test_bad_requests_are_refused_in_one_line(sent: bytes, status: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        read_request(sent)
    assert caught.value.answer.status == status
    assert caught.value.answer.body.count(b"\n") == 1


def test_head_has_the_length_and_no_body() -> None:
    answer = Answer(HTTPStatus.OK, b"alive\n")
    assert answer.encode().removesuffix(b"alive\n") == answer.encode(is_head=True)
    assert b"\r\nContent-Length: 6\r\n" in answer.encode(is_head=True)
