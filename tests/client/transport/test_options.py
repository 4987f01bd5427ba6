"""URLs and options."""

import ssl

import pytest

from holdfast.client.transport.options import ClientOptions, ConnectOptions, parse_url


def test_defaults_are_those_of_the_documentation() -> None:
    options = ClientOptions()
    assert (options.resolve_timeout_s, options.connect_timeout_s) == (5.0, 5.0)
    assert options.request_timeout_s == 5.0
    assert (options.max_requests, options.max_bytes) == (16_384, 64 << 20)
    assert (options.close_grace_s, options.keepalive_s, options.protocol) == (5.0, 30, 3)
    assert (options.reconnect, options.db, options.cache_keys) == (True, 0, 0)
    assert (options.username, options.password, options.client_name) == (None, None, None)
    assert (options.host, options.port, options.tls) == ("localhost", 6379, None)
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
        ("redis://h?keepalive_s=none&db=4", {"keepalive_s": None, "db": 4}),
        ("redis://h?username=u&password=p", {"username": "u", "password": "p"}),
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
    assert parse_url("redis+sentinel://a/m?sentinel_password=s").options.sentinel_password == "s"


@pytest.mark.parametrize("scheme", ["rediss", "rediss+sentinel", "rediss+cluster"])
def test_two_s_mean_tls(scheme: str) -> None:
    assert parse_url(f"{scheme}://h/{'main' if 'sentinel' in scheme else ''}").options.tls
    assert parse_url("redis://h").options.tls is None


def test_local_urls() -> None:
    target = parse_url("holdfast:///tmp/app.db")
    assert target.path == target.options.address == "/tmp/app.db"
    assert parse_url("memory://").scheme == "memory"


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://h", "begins with one of redis://"),
        ("h:1", "begins with one of redis://"),
        ("", "begins with one of redis://"),
        ("redis:/h", "begins with one of redis://"),
        ("redis://h:x", "the port in the URL is no whole number"),
        ("redis://h:0", "the port is 0"),
        ("redis://h:65536", "the port is 65536"),
        ("redis://h/x", "the database in the URL is no whole number"),
        ("redis://h/-1", "the database in the URL is no whole number"),
        ("redis://h?no=1", "unknown option 'no'"),
        ("redis://h?request_timeout_s=soon", "no number of seconds: 'soon'"),
        ("redis://h?request_timeout_s=nan", "request_timeout_s is nan"),
        ("redis://h?close_grace_s=-1", "close_grace_s is -1.0"),
        ("redis://h?close_grace_s=none", "no number of seconds"),
        ("redis://h?protocol=4", "protocol is 4; it can be 2 or 3"),
        ("redis://h?reconnect=maybe", "yes or no, not 'maybe'"),
        ("redis://a,b", r"for several use redis\+cluster://"),
        ("redis://::1", "brackets"),
        ("redis://ann@h", "username without password"),
        ("redis://:top#secret@h", "written %2F"),
        ("redis://:top/secret@h", "written %2F"),
        ("redis://:top?secret@h", "written %2F"),
        ("redis+sentinel://h", "names its service"),
        ("redis+cluster://h/1", "one database"),
        ("holdfast://app.db", "three slashes"),
        ("holdfast://data/app.db", "three slashes"),
        ("holdfast://", "three slashes"),
        ("unix://run/redis.sock", "three slashes"),
        ("unix://", "three slashes"),
        ("memory://x", "nothing after it"),
    ],
)
def test_a_mistake_in_a_url_is_one_sentence_that_shows_no_password(url: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)


def test_a_mistake_in_an_option_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="a URL is text, not NoneType"):
        parse_url(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"connect\(\) has no option timeout"):
        parse_url("redis://h", timeout=5)
    with pytest.raises(ValueError, match="max_requests is -1"):
        parse_url("redis://h", max_requests=-1)
    with pytest.raises(ValueError, match="sentinel_username without sentinel_password"):
        parse_url("redis+sentinel://h/main", sentinel_username="ann")


def test_the_address_in_messages() -> None:
    assert parse_url("redis://h").options.address == "h:6379"
    assert parse_url("redis://[::1]:1").options.address == "[::1]:1"
    assert parse_url("memory://").options.address == ":memory:"
    assert parse_url("redis+sentinel://a,b:1/main").options.address == "main at a:26379,b:1"
    assert parse_url("redis+cluster://a,b").options.address == "a:6379,b:6379"


def test_every_option_can_be_given_as_a_keyword() -> None:
    by_url = {"host", "port", "path", "place"}
    assert set(ConnectOptions.__annotations__) == set(
        ClientOptions.__dataclass_fields__
    ) - by_url | {"hooks"}


def test_a_password_is_not_shown() -> None:
    target = parse_url("redis+sentinel://:secret@h/m?sentinel_password=secret")
    assert "secret" not in repr(target)
