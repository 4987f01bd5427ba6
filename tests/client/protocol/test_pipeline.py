"""The order of requests and replies, without connections and without callers."""

import ast
import contextlib
from pathlib import Path

import pytest

from holdfast.client.errors import ClosedError, QueueFullError, RequestTimeoutError
from holdfast.client.protocol import pipeline as module
from holdfast.client.protocol.pipeline import Pipeline
from holdfast.errors import ProtocolError
from tests.client.fakes import FakeSink


def pushed(pipeline: Pipeline, *sinks: FakeSink) -> tuple[FakeSink, ...]:
    for sink in sinks:
        pipeline.push(sink)
    return sinks


def test_replies_go_to_requests_in_order() -> None:
    pipeline = Pipeline()
    a, b = pushed(pipeline, FakeSink(b"a"), FakeSink(b"b", replies=2))
    assert pipeline.take() == b"ab"
    for reply in (1, 2, 3):
        pipeline.on_reply(reply)
    assert (a.got, b.got) == ([1], [2, 3])


def test_a_cancelled_request_in_flight_still_consumes_its_replies() -> None:
    pipeline = Pipeline()
    a, b = pushed(pipeline, FakeSink(replies=2), FakeSink())
    pipeline.take()
    a.settled = True
    for reply in (1, 2, 3):
        pipeline.on_reply(reply)
    assert b.got == [3]


def test_a_cancelled_request_in_the_queue_is_never_sent() -> None:
    pipeline = Pipeline()
    a, _ = pushed(pipeline, FakeSink(b"a"), FakeSink(b"b"))
    a.settled = True
    assert pipeline.take() == b"b"
    assert pipeline.requests == 1


def test_a_request_without_replies_waits_for_none() -> None:
    pipeline = Pipeline()
    pushed(pipeline, FakeSink(b"SUBSCRIBE", replies=0))
    assert pipeline.take() == b"SUBSCRIBE"
    assert (pipeline.requests, pipeline.bytes) == (0, 0)


def test_a_reply_to_nothing_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        Pipeline().on_reply(1)


def test_limits_count_requests_and_bytes_and_are_reclaimed() -> None:
    pipeline = Pipeline(max_requests=2, max_bytes=10)
    pushed(pipeline, FakeSink(b"12345"), FakeSink(b"12345"))
    with pytest.raises(QueueFullError) as full:
        pipeline.push(FakeSink())
    assert not full.value.may_have_executed
    assert full.value.is_retryable
    pipeline.take()
    pipeline.on_reply(1)
    assert (pipeline.requests, pipeline.bytes) == (1, 5)
    with pytest.raises(QueueFullError, match="bytes"):
        pipeline.push(FakeSink(b"123456"))
    pushed(pipeline, FakeSink(b"12345"))
    pipeline.fail_sent(lambda: ClosedError("x"))
    pipeline.fail_unsent(lambda: ClosedError("x"))
    assert (pipeline.requests, pipeline.bytes) == (0, 0)


def test_cancelled_requests_make_room_before_anyone_is_refused() -> None:
    pipeline = Pipeline(max_requests=2)
    a, _ = pushed(pipeline, FakeSink(), FakeSink())
    a.settled = True
    pipeline.push(FakeSink())
    assert pipeline.requests == 2


def test_refusing_costs_little_however_many_wait() -> None:
    looks = 0

    class Watched(FakeSink):
        @property
        def is_settled(self) -> bool:
            nonlocal looks
            looks += 1
            return super().is_settled

    pipeline = Pipeline(max_requests=1000)
    first, *_ = pushed(pipeline, *(Watched() for _ in range(1000)))
    for _ in range(1000):
        with pytest.raises(QueueFullError):
            pipeline.push(FakeSink())
    assert looks < 200_000
    first.settled = True
    got_in = FakeSink(b"late")
    for _ in range(20):  # not the next one, maybe, but soon
        with contextlib.suppress(QueueFullError):
            pipeline.push(got_in)
            break
    assert pipeline.requests == 1000
    assert pipeline.take().endswith(b"late")


def test_each_request_fails_once_and_the_cancelled_not_at_all() -> None:
    pipeline = Pipeline()
    a, b, c = pushed(pipeline, FakeSink(), FakeSink(), FakeSink())
    pipeline.take()
    pipeline.on_reply(1)
    b.settled = True
    for _ in range(2):
        pipeline.fail_sent(lambda: ClosedError("gone"))
    assert a.got == [1]
    assert b.got == []
    assert [type(error) for error in c.got] == [ClosedError]
    assert (pipeline.requests, pipeline.bytes) == (0, 0)


def test_failing_sent_requests_leaves_unsent_ones() -> None:
    pipeline = Pipeline()
    (sent,) = pushed(pipeline, FakeSink())
    pipeline.take()
    (unsent,) = pushed(pipeline, FakeSink(b"later"))
    pipeline.fail_sent(lambda: ClosedError("gone"))
    assert sent.settled
    assert not unsent.settled
    assert pipeline.take() == b"later"


def test_deadlines_fail_the_due_and_no_other() -> None:
    pipeline = Pipeline()
    a, b, c = pushed(pipeline, FakeSink(due_s=1.0), FakeSink(), FakeSink(due_s=2.0))
    pipeline.take()
    (queued,) = pushed(pipeline, FakeSink(due_s=3.0))
    assert pipeline.expire(0.5) == 1.0
    assert pipeline.expire(1.0) == 2.0
    assert isinstance(a.got[0], RequestTimeoutError)
    assert a.got[0].may_have_executed
    for reply in (1, 2, 3):
        pipeline.on_reply(reply)
    assert (b.got, c.got) == ([2], [3])
    assert pipeline.expire(9.0) is None
    assert isinstance(queued.got[0], RequestTimeoutError)
    assert not queued.got[0].may_have_executed


def test_a_large_queue_is_written_in_pieces() -> None:
    pipeline = Pipeline()
    pushed(pipeline, *(FakeSink(b"x" * 100_000) for _ in range(10)))
    sizes = []
    while data := pipeline.take():
        sizes.append(len(data))
    assert sum(sizes) == 1_000_000
    assert max(sizes) < 400_000


def test_the_pipeline_knows_no_coroutines() -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
    }
    allowed = {"abc", "collections", "collections.abc", "itertools", "typing"}
    assert imported <= allowed | {"holdfast.client.errors", "holdfast.errors"}
