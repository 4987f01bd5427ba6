"""What pages show in one line, and in full: jobs, and commands of the slow log."""

import html
import pickle

from tests.harness import RawClient
from tests.web.conftest import Place, play

MAIL = "/queues/show?library=bullmq&prefix=bull&name=mail&state=wait"
JOBS = "/queues/show?library=plain+list&name=jobs"


async def text_of(place: Place, path: str) -> str:
    answer = await place.browser().get(path)
    assert answer.status_code == 200, answer.text
    return html.unescape(answer.text.partition("<main")[2])


def test_details_of_a_job_keep_their_lines_and_backslashes(server_port: int) -> None:
    with RawClient.connect(server_port) as raw:
        raw.command("HSET", "bull:mail:1", "name", r"a\b", "data", "{}", "opts", '{"attempts":3}')
        raw.command("LPUSH", "bull:mail:wait", "1")

    async def scenario(place: Place) -> None:
        page = await text_of(place, MAIL)
        assert '{\n  "attempts": 3\n}</dd>' in page
        assert r'<span class="mono">a\b</span>' in page

    play(server_port, scenario)


def test_a_pickle_is_one_word_in_the_line_of_its_job(server_port: int) -> None:
    body = pickle.dumps({"task": "add"})
    with RawClient.connect(server_port) as raw:
        raw.command("RPUSH", "jobs", body)

    async def scenario(place: Place) -> None:
        summary, _, rest = (await text_of(place, JOBS)).partition("</summary>")
        assert "not loaded" not in summary
        assert f"pickle, {len(body)}B" in summary
        assert "It is not loaded, because that can run code" in rest

    play(server_port, scenario)


def test_a_long_line_of_the_slow_log_can_be_unfolded(server_port: int) -> None:
    with RawClient.connect(server_port) as raw:
        raw.command("CONFIG", "SET", "slowlog-log-slower-than", "0")
        raw.command("EVAL", "return 1", "0", *["two words"] * 30)
        raw.command("CONFIG", "SET", "slowlog-log-slower-than", "10000")

    async def scenario(place: Place) -> None:
        summary, _, rest = (await text_of(place, "/slow-log")).partition("</summary>")
        assert summary.endswith("…")
        assert rest.count('"two words"') >= 25  # the server itself leaves out the last ones

    play(server_port, scenario)
