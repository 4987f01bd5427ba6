"""Where two values differ."""

import pytest

from holdfast.migration.differences import difference, is_same_expiry
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.stream_codec import GroupData, StreamData
from holdfast.store.values.stream_id import id_of

STREAM = StreamData(
    [(id_of(1, 1), (b"f", b"v")), (id_of(2, 1), (b"f", b"w"))],
    id_of(2, 1),
    0,
    2,
    [GroupData(b"g", id_of(1, 1), 1, [(b"c", 5)], [(id_of(1, 1), b"c", 5, 1)])],
)


@pytest.mark.parametrize(
    ("kind", "one", "other", "where"),
    [
        ("string", b"abc" * 99, b"abc" * 99, None),
        ("string", b"abcd", b"abxd", "from byte 2 on (4 and 4 bytes)"),
        ("string", b"ab", b"abc", "from byte 2 on (2 and 3 bytes)"),
        ("list", [b"a", b"b"], (b"a", b"b"), None),
        ("list", [b"a", b"b"], [b"a", b"c"], "element 1 (2 and 2 elements)"),
        ("list", [b"a"], [b"a", b"c"], "element 1 (1 and 2 elements)"),
        ("set", [b"a", b"b"], [b"b", b"a"], None),
        ("set", [b"a", b"b"], [b"b"], "member 'a', which the second lacks"),
        ("set", [b"b"], [b"b", b"\xff"], "member '\\\\xff', which the first lacks"),
        ("zset", [(b"a", 1.0), (b"b", 2.0)], [(b"b", 2), (b"a", 1)], None),
        ("zset", [(b"a", 1.0)], [(b"a", 1.5)], "the score of member 'a'"),
        ("hash", [(b"f", b"v", None)], [(b"f", b"w", None)], "field 'f'"),
        ("hash", [(b"f", b"v", None)], [(b"f", b"v", 5)], "field 'f'"),
        ("hash", [(b"f", b"v", None)], [(b"g", b"v", None)], "field 'f', which the second lacks"),
        ("stream", STREAM, STREAM._replace(), None),
        ("stream", STREAM, STREAM._replace(last_id=id_of(9, 0)), "last id"),
        (
            "stream",
            STREAM,
            STREAM._replace(entries=STREAM.entries[:1]),
            "entry 2-1, which the second lacks",
        ),
        ("stream", STREAM, STREAM._replace(groups=[]), "group 'g', which the second lacks"),
        (
            "stream",
            STREAM,
            STREAM._replace(groups=[STREAM.groups[0]._replace(pending=[])]),
            "group 'g'",
        ),
        (
            "stream",
            STREAM,
            STREAM._replace(groups=[STREAM.groups[0]._replace(consumers=[(b"c", 77)])]),
            None,
        ),
    ],
)
def test_the_first_difference_is_named(
    kind: str, one: object, other: object, where: str | None
) -> None:
    assert difference(Plain(kind, one), Plain(kind, other)) == where


def test_other_types_are_named() -> None:
    assert difference(Plain("string", b""), Plain("list", [b""])) == "string and list"


def test_expiries_have_a_tolerance() -> None:
    assert is_same_expiry(None, None, 0)
    assert is_same_expiry(5, 6, 1)
    assert not is_same_expiry(5, 7, 1)
    assert not is_same_expiry(5, None, 1000)
