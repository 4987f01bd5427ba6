"""The console: words as redis-cli reads them, refusals, replies, secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.web.names import line_of
from holdfast.web.pages.console import printed, refusal, split
from tests.web.conftest import PASSWORD, Place, play


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("GET a", [b"GET", b"a"]),
        ('SET a "b c"', [b"SET", b"a", b"b c"]),
        (r'SET a "\xff\n\""', [b"SET", b"a", b'\xff\n"']),
        (r"SET a '\n'", [b"SET", b"a", b"\\n"]),
        ('SET "" ""', [b"SET", b"", b""]),
        ("  PING  ", [b"PING"]),
    ],
)
def test_words_of_a_line(line: str, words: list[bytes]) -> None:
    assert split(line) == words


@given(st.lists(st.binary()))
def test_the_line_that_is_shown_is_the_same_command_again(words: list[bytes]) -> None:
    assert split(line_of(words)) == words


@pytest.mark.parametrize("line", ['GET "a', "GET 'a", '"'])
def test_an_open_quotation_mark_is_a_mistake(line: str) -> None:
    with pytest.raises(ValueError, match="not closed"):
        split(line)


@pytest.mark.parametrize(
    "line",
    [
        *("SUBSCRIBE a", "monitor", "SELECT 1", "AUTH x", "HELLO 3", "MULTI", "QUIT", "RESET"),
        *("BLPOP a 0", "xread block 0 streams s $", "WAIT 1 0", "DEBUG SLEEP 9", "SHUTDOWN"),
        *("CLIENT REPLY OFF", "SYNC", "PSYNC ? -1", "replconf ack 1", "script debug yes"),
    ],
)
def test_commands_that_wait_or_change_the_connection_are_refused(line: str) -> None:
    assert refusal(split(line)) is not None


def test_replies_look_as_in_redis_cli() -> None:
    reply = [1, b"a", None, [b"b", {b"k": b"v"}], []]
    assert printed(reply).splitlines() == [
        "1) (integer) 1",
        '2) "a"',
        "3) (nil)",
        '4) 1) "b"',
        '   2) 1# "k" => "v"',
        "5) (empty)",
    ]


def test_a_long_reply_is_cut() -> None:
    assert len(printed([b"x" * 10**6] * 10_000)) < 2_000_000


def test_commands_run_and_only_changes_are_audited(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        for line, wanted in (
            ('SET a "b c"', "OK"),
            ("GET a", "&#34;b c&#34;"),
            ("GET", "wrong number of arguments"),
            ("BLPOP a 0", "would wait"),
            ('GET "', "not closed"),
            ("ECHO <script>", "&lt;script&gt;"),
        ):
            await browser.get("/console")
            answer = await browser.submit("/console", line=line)
            assert answer.status_code == 200
            assert wanted in answer.text, line
        trail = place.dashboard.history.audited(None, 10)
        assert [each.detail for each in trail] == ['SET a "b c"']
        names = (await browser.get("/console/commands")).json()
        assert "GET" in names
        assert "CONFIG GET" in names

    play(server_port, scenario)


def test_secrets_are_not_shown(server_port: int) -> None:
    async def scenario(place: Place) -> None:
        browser = place.browser()
        texts = []
        for line in (
            f'ACL SETUSER reader on ">{PASSWORD}" ~* +@read',
            "ACL LIST",
            "ACL GETUSER reader",
            f'CONFIG SET masterauth "{PASSWORD}"',
            "CONFIG GET masterauth",
            'CONFIG SET masterauth ""',
            f'AUTH default "{PASSWORD}"',  # these are not sent
            f"HELLO 3 AUTH default '{PASSWORD}'",
            f'ACL SETUSER reader ">{PASSWORD}',
        ):
            await browser.get("/console")
            texts.append((await browser.submit("/console", line=line)).text)
        texts += [(await browser.get(path)).text for path in ("/audit", "/users", "/console")]
        texts.append((await browser.get("/configuration?show=all")).text)
        for text in texts:
            assert PASSWORD not in text
            assert "d1dc1ba5" not in text
        assert "(hidden)" in texts[-2]

    play(server_port, scenario)
