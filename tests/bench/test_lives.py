"""The benchmark of lives runs, and each row does what it says; its figures are not asked here."""

from itertools import chain
from pathlib import Path

import pytest

from bench import common, lives, resplite
from bench.lives import ROWS, Life, UnknownCommandError, line, parse_args
from tests.harness import HoldfastServer, RawClient

FEW = parse_args(
    [
        *("--seconds", "0.2", "--sessions", "40", "--jobs", "300", "--waiting", "32"),
        *("--requests", "400", "--changes", "300", "--keys", "600"),
    ]
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "wait_until_idle", common.cpu_s)


@pytest.mark.parametrize("title", ROWS)
def test_each_row_is_measured(title: str, server: HoldfastServer, client: RawClient) -> None:
    life = ROWS[title](server, FEW)
    assert life.units > 0
    assert life.files_mb > 0
    assert life.rss_mb > 0
    assert min(life.rates) > 0
    assert title in line(title, "ours", life)


@pytest.mark.parametrize("title", [title for title in ROWS if title.startswith("jobs")])
def test_a_job_leaves_nothing_behind(title: str, server: HoldfastServer, client: RawClient) -> None:
    assert ROWS[title](server, FEW).units == lives.SLICES * lives.AT_ONCE * lives.CONNECTIONS
    keys = client.command("KEYS", "*")
    assert b"job:" not in keys
    assert b"queue:" not in keys
    assert b"due:" not in keys
    if "stream" in title:
        for number in range(lives.CONNECTIONS):
            assert client.command("XLEN", f"events:{number}") == b":0\r\n"
            pending = client.command("XPENDING", f"events:{number}", "workers")
            assert pending.startswith(b"*4\r\n:0\r\n")


@pytest.mark.parametrize("queue", [lives.list_jobs, lives.zset_jobs, lives.stream_jobs])
def test_jobs_of_all_connections_have_numbers_of_their_own(queue: lives.Queue) -> None:
    blocks = [lives._block(number, at) for number in range(3) for at in range(lives.CONNECTIONS)]
    assert [*chain.from_iterable(blocks)] == [*range(3 * lives.CONNECTIONS * lives.AT_ONCE)]
    for payload, replies in queue(0, blocks[0]):
        assert payload.count(b"*") - payload.count(b"\r\n*\r\n") >= replies


def test_a_working_set_uses_keys_of_all_types_and_changes_them(
    server: HoldfastServer, client: RawClient
) -> None:
    life = lives.working_set(server, FEW, is_limited=True)
    assert life.units >= lives.SLICES * lives.AT_ONCE * lives.CONNECTIONS
    assert int(client.command("CONFIG", "GET", "maxmemory").split()[-1]) > 0
    assert client.command("DBSIZE") == b":600\r\n"
    used = {lives.USES[number % 6][0][0] for number in range(0, 60 * lives.SPREAD, lives.SPREAD)}
    assert used == {making[0] for making, _, _ in lives.USES}


def test_a_server_that_keeps_all_in_memory_has_no_row_with_a_limit() -> None:
    with pytest.raises(UnknownCommandError, match="keeps all keys in memory"):
        lives.working_set(resplite.Resplite(Path(), "default"), FEW, is_limited=True)


def test_a_change_that_was_lost_ends_the_benchmark(
    server: HoldfastServer, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lives, "ask", lambda client, *args: b"$-1\r\n")
    with pytest.raises(SystemExit, match="a change is lost"):
        lives.crash(server, FEW)


def test_a_command_that_a_server_lacks_is_told_and_not_measured(client: RawClient) -> None:
    with pytest.raises(UnknownCommandError, match="unknown command"):
        lives.exchange([client], [lives.step(("NOSUCH",))])


def test_without_npm_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resplite, "PACKAGE", tmp_path / "missing")
    monkeypatch.setattr("shutil.which", lambda program: None)
    assert resplite.installed() == "npm is not installed"
    assert {*lives.contestants("everysec")} == {"ours", "redis"}


def test_percentiles_are_of_all_waits() -> None:
    waits = [number / 1000 for number in range(1001)]
    found = lives.percentiles(waits)
    assert [round(wait) for wait in found.values()] == [500, 990, 999, 1000]


def test_options_that_name_no_row_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_args(["--only", "nonsense"])
    assert "no row has 'nonsense'" in capsys.readouterr().err


def test_a_row_that_is_not_possible_is_shown_as_such() -> None:
    assert line("jobs", "RESPLite default", "not possible: ERR x").endswith("not possible: ERR x")
    assert "1.50" in line("x", "ours", Life(1, [1.0], 1.0, {}, 1, 1, {"last : first": 1.5}))
