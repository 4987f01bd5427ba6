"""Keys are recognised by their names; strange names are no reason to fail."""

import random

import pytest

from holdfast.web.readers.queues import QueueId, recognise
from holdfast.web.readers.queues.recognise import SCANNED

U = b"65fd0413-f193-44d9-b01b-6635e9cd75e7"


@pytest.mark.parametrize(
    ("kind", "name", "library", "queue"),
    [
        ("set", b"_kombu.binding.celery", "celery", b"celery"),
        ("list", b"celery\x06\x163", "celery", b"celery"),
        ("list", b"rq:queue:high:low", "rq", b"high:low"),
        ("zset", b"rq:failed:high", "rq", b"high"),
        ("zset", b"arq:queue", "arq", b"arq:queue"),
        ("list", b"saq:a:b:queued", "saq", b"a:b"),
        ("set", b"dramatiq:__acks__." + U + b".mail.DQ", "dramatiq", b"mail"),
        ("set", b"other:__acks__." + U + b".mail", "dramatiq", b"mail"),
        ("list", b"dramatiq:mail.DQ", "dramatiq", b"mail"),
        ("zset", b"dramatiq:mail.XQ", "dramatiq", b"mail"),
        ("zset", b"bull:a:b:failed", "bullmq", b"a:b"),
        ("stream", b"{bull}:mail:events", "bullmq", b"mail"),
        ("list", b"emails", "plain list", b"emails"),
        ("stream", b"orders", "stream", b"orders"),
        ("zset", b"later", "schedule", b"later"),
    ],
)
def test_keys_of_queues(kind: str, name: bytes, library: str, queue: bytes) -> None:
    found = recognise(kind, name)
    assert found is not None
    assert (found.library, found.name) == (library, queue)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("set", b"tags"),
        ("set", b"_kombu.binding.celeryev"),
        ("set", b"_kombu.binding.celery.pidbox"),
        ("zset", b"unacked_index"),
        ("stream", b"rq:results:1"),
        ("zset", b"dramatiq:__heartbeats__"),
        ("zset", b"adv-sem:semaphore_main:{x}"),
        ("zset", b"{builds}:state:READY"),
        ("list", b"{builds}:wake"),
        ("stream", b"{builds}:build:events:12"),
    ],
)
def test_keys_that_are_no_queue_of_their_own(kind: str, name: bytes) -> None:
    assert recognise(kind, name) is None


def test_a_queue_that_is_named_like_a_mark_of_a_template_keeps_its_name() -> None:
    from holdfast.web.readers.queues import LIBRARIES

    queue = QueueId("bullmq", b"{prefix}{id}", b"bull")
    assert LIBRARIES["bullmq"].keys(queue)[0] == b"bull:{prefix}{id}:wait"


def test_any_name_is_answered(rng: random.Random) -> None:
    words = [
        b"bull:",
        b":wait",
        b"rq:",
        b"\xff",
        b"\n",
        b"dramatiq:",
        b".XQ",
        b"\x06\x16",
        b"a" * 300,
    ]
    for _ in range(2000):
        name = b"".join(rng.choices(words, k=rng.randint(1, 6)))
        for kind in SCANNED:
            recognise(kind, name)
