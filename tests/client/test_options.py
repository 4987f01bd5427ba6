"""URLs and options."""

import ssl

import pytest

from holdfast.client.options import ConnectOptions, Options, parse_url


def test_defaults_are_those_of_the_documentation() -> None:
    options = Options()
    assert (options.resolve_timeout_s, options.connect_timeout_s) == (5.0, 5.0)
    assert options.request_timeout_s == 5.0
    assert (options.max_requests, options.max_bytes) == (16_384, 64 << 20)
    backoff = options.backoff
    assert (backoff.immediate, backoff.first_s, backoff.cap_s, backoff.jitter) == (5, 0.1, 30, 0.2)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", {"host": "h", "port": 6379, "db": 0}),
        ("redis://h:1/2", {"host": "h", "port": 1, "db": 2}),
        ("redis://u:p%40@[::1]:7/1", {"host": "::1", "port": 7, "username": "u", "password": "p@"}),
        ("redis://:p@h", {"username": None, "password": "p"}),
        ("redis://", {"host": "localhost", "port": 6379}),
        ("unix:///run/r.sock?db=3", {"path": "/run/r.sock", "db": 3}),
        ("redis://h?request_timeout_s=none&client_name=me", {"request_timeout_s": None}),
        ("redis://h?reconnect=no&protocol=2", {"reconnect": False, "protocol": 2}),
    ],
)
def test_urls(url: str, expected: dict[str, object]) -> None:
    options = parse_url(url).options
    assert {name: getattr(options, name) for name in expected} == expected


def test_keywords_win_over_the_url() -> None:
    assert parse_url("redis://h/1?protocol=2", db=5, protocol=3).options.db == 5


def test_tls_checks_certificates_by_default() -> None:
    tls = parse_url("rediss://h").options.tls
    assert tls is not None
    assert tls.verify_mode is ssl.CERT_REQUIRED


def test_sentinels_and_clusters_name_several_hosts() -> None:
    target = parse_url("redis+sentinel://:pw@a,b:1,[::1]:2/main/3")
    assert target.seeds == (("a", 26379), ("b", 1), ("::1", 2))
    assert (target.service, target.options.db, target.options.password) == ("main", 3, "pw")
    assert parse_url("redis+cluster://a:1,b").seeds == (("a", 1), ("b", 6379))


def test_local_urls() -> None:
    target = parse_url("holdfast:///tmp/app.db")
    assert target.path == target.options.address == "/tmp/app.db"
    assert parse_url("memory://").scheme == "memory"


@pytest.mark.parametrize(
    "url",
    [
        *("http://h", "h:1", "redis://h:x", "redis://h/x", "redis://h?no=1", "redis+sentinel://h"),
        *("holdfast://app.db", "holdfast://data/app.db", "holdfast://"),
    ],
)
def test_mistakes_in_a_url(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|number"):
        parse_url(url)


def test_every_option_can_be_given_as_a_keyword() -> None:
    by_url = {"host", "port", "path"}
    assert set(ConnectOptions.__annotations__) == set(Options.__dataclass_fields__) - by_url | {
        "hooks"
    }


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(parse_url("redis://:secret@h"))
