"""Cron: how it is read, and when its windows are open, minute by minute."""

import asyncio
import itertools
import random
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast.builds import Build
from holdfast.builds.cron_expressions import (
    MOST_WINDOWS,
    BadCronError,
    compile_cron,
    compile_windows,
)
from holdfast.coordination.lua_scripts import LuaScript, load
from tests.builds.conftest import Bench
from tests.builds.lua_alone import Alone


@pytest.fixture(scope="module")
def cron() -> Alone:
    return Alone("CronDecider")


@pytest.mark.parametrize(
    ("text", "compiled"),
    [
        ("* * * * *", "* * * * *"),
        ("* * ? * ?", "* * * * *"),
        ("5 4 3 2 1", ",5, ,4, ,3, ,2, ,1,"),
        ("*/20 1-3 1,15 jan-mar/2 MON-FRI", ",0,20,40, ,1,2,3, ,1,15, ,1,3, ,1,2,3,4,5,"),
        ("0-59 0-23 1-31 1-12 0-7", "* * * * *"),
        ("50/5 * * * 7", ",50,55, * * * ,0,"),
        ("  1   2 * *  * ", ",1, ,2, * * *"),
    ],
)
def test_the_meaning_of_a_cron_expression(text: str, compiled: str) -> None:
    assert compile_cron(text) == compiled


@pytest.mark.parametrize(
    "text",
    [
        *("", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *"),
        *("* * * * 8", "a * * * *", "5-1 * * * *", "*/0 * * * *", "1, * * * *", "-1 * * * *"),
        *("H(5-1) * * * *", "H(0-60) * * * *", "H/0 * * * *", "1.5 * * * *", "** * * * *"),
    ],
)
def test_a_malformed_expression_is_one_sentence(text: str) -> None:
    with pytest.raises(BadCronError) as error:
        compile_cron(text)
    assert "\n" not in str(error.value)


def numbers(field: str) -> list[int]:
    return [int(n) for n in field.strip(",").split(",")]


def test_h_follows_from_the_name_and_spreads() -> None:
    minutes = set()
    for n in range(200):
        text = compile_cron("H H * * *", f"job-{n}")
        assert text == compile_cron("H H * * *", f"job-{n}")
        (minute,), (hour,) = map(numbers, text.split()[:2])
        assert 0 <= minute < 60
        assert 0 <= hour < 24
        minutes.add(minute)
    assert len(minutes) > 40


def test_h_with_a_range_and_with_a_step() -> None:
    for n in range(100):
        first, second, third, fourth, fifth = compile_cron(
            "H/15 H(2-4) H H(6-8) H", f"job-{n}"
        ).split()
        quarters = numbers(first)
        assert quarters[0] < 15
        assert [b - a for a, b in itertools.pairwise(quarters)] == [15, 15, 15]
        assert 2 <= numbers(second)[0] <= 4
        assert 1 <= numbers(third)[0] <= 28
        assert 6 <= numbers(fourth)[0] <= 8
        assert 0 <= numbers(fifth)[0] <= 6
        stepped = numbers(compile_cron("H(10-30)/10 * * * *", f"job-{n}").split()[0])
        assert 10 <= stepped[0] < 20
        assert stepped[-1] <= 30


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def is_open(window: str, moment: datetime) -> bool:
    """The same question to Python's calendar."""
    minutes, hours, days, months, weekdays = (
        None if field == "*" else numbers(field) for field in window.split()
    )

    def has(field: list[int] | None, number: int) -> bool:
        return field is None or number in field

    on_day, on_weekday = has(days, moment.day), has(weekdays, moment.isoweekday() % 7)
    either = days is not None and weekdays is not None
    return (
        has(minutes, moment.minute)
        and has(hours, moment.hour)
        and has(months, moment.month)
        and ((on_day or on_weekday) if either else (on_day and on_weekday))
    )


WORDS = ("*", "0", "*/7", "1-5", "H", "3,4", "10-12/2")


def test_the_next_change_is_that_of_pythons_calendar(cron: Alone, rng: random.Random) -> None:
    for _ in range(50):
        fields = [rng.choice(WORDS) for _ in range(3)]
        text = " ".join([*fields[:2], rng.choice(["*", "1-15", "28-31"]), "*", "*"])
        if rng.random() < 0.5:
            text = " ".join([*fields[:2], "?", rng.choice(["*", "2-3"]), rng.choice(["1-3", "*"])])
        windows = compile_windows([text] if rng.random() < 0.5 else [text, "0 5 1-3 * *"], "x")
        moment = datetime(2024, 2, 26, tzinfo=UTC) + timedelta(minutes=rng.randrange(9000))
        wanted = rng.random() < 0.5
        expected = moment
        lines = windows.split("\n")
        while any(is_open(line, expected) for line in lines) is not wanted:
            expected += timedelta(minutes=1)
            if expected - moment > timedelta(days=35):
                break
        else:
            found = cron("first", windows, ms(moment), wanted)
            assert found == ms(expected), (windows, moment, wanted)


def test_seconds_do_not_matter_while_it_stays_as_it_is(cron: Alone) -> None:
    moment = ms(datetime(2024, 5, 1, 12, 0, 30, tzinfo=UTC))
    assert cron("first", compile_cron("* 12 * * *"), moment, True) == moment
    one = ms(datetime(2024, 5, 1, 13, tzinfo=UTC))
    assert cron("first", compile_cron("* 12 * * *"), moment, False) == one


def test_the_29th_of_february_is_found_and_the_30th_is_not(cron: Alone) -> None:
    start = ms(datetime(2025, 3, 1, tzinfo=UTC))
    leap = ms(datetime(2028, 2, 29, tzinfo=UTC))
    assert cron("first", compile_cron("0 0 29 2 *"), start, True) == leap
    assert cron("first", compile_cron("0 0 30 2 *"), start, True) is None


def test_a_build_that_is_always_frozen_never_thaws(cron: Alone) -> None:
    assert cron("first", compile_cron("* * * * *"), 0, False) is None


COMPLEMENTARY = [
    ["0-29 * * * *", "30-59 * * * *"],
    ["*/2 * * * *", "1-59/2 * * * *"],
    ["* 0-11 * * *", "* 12-23 * * *"],
    ["* * 1-15 * *", "* * 16-31 * *"],
    ["* * * 1-6 *", "*/2 * * 7-12 *", "1-59/2 * * 7-12 *"],
    ["* * * * 1-5", "* * * * 6,7"],
]
A_MILLION = 1_000_000  # a few milliseconds on a server


@pytest.mark.parametrize("windows", COMPLEMENTARY)
def test_windows_that_never_close_together_are_found_with_bounded_work(
    cron: Alone, windows: list[str]
) -> None:
    start = ms(datetime(2024, 2, 26, 12, 31, 5, tzinfo=UTC))
    assert cron.bounded(A_MILLION, "first", compile_windows(windows), start, False) is None


@pytest.mark.parametrize("missing", ["17 3 29 2", "59 23 31 12", "0 0 1 3"])
def test_the_only_minute_of_years_is_found_with_bounded_work(cron: Alone, missing: str) -> None:
    """All windows leave one minute of a year, or of four, in which nothing is frozen."""
    minute, hour, day, month = map(int, missing.split())

    def but(number: int, least: int, most: int) -> str:
        return ",".join(str(n) for n in range(least, most + 1) if n != number)

    windows = [
        f"{but(minute, 0, 59)} * * * *",
        f"* {but(hour, 0, 23)} * * *",
        f"* * {but(day, 1, 31)} * *",
        f"* * * {but(month, 1, 12)} *",
    ]
    start = ms(datetime(2024, 3, 1, 0, 1, tzinfo=UTC))
    year = 2028 if (month, day) == (2, 29) else 2025 if (month, day) == (3, 1) else 2024
    expected = ms(datetime(year, month, day, hour, minute, tzinfo=UTC))
    assert cron.bounded(A_MILLION, "first", compile_windows(windows), start, False) == expected


def test_as_many_windows_as_a_build_may_have_are_bounded_work(
    cron: Alone, rng: random.Random
) -> None:
    """Each day has its own set of windows, and none covers an hour: nothing can be reused."""

    def field(least: int, most: int) -> str:
        return ",".join(map(str, rng.sample(range(least, most + 1), (most - least) // 2)))

    windows = [
        f"0-40 {field(0, 23)} {field(1, 31)} {field(1, 12)} {field(0, 6)}"
        for _ in range(MOST_WINDOWS - 2)
    ]
    text = compile_windows([*windows, "0-58 * * * *", "1-59 * * * *"])
    assert cron.bounded(20 * A_MILLION, "first", text, ms(datetime.now(UTC)), False) is None


def test_the_29th_of_february_is_found_across_a_century(cron: Alone) -> None:
    start, leap = datetime(2096, 3, 1, tzinfo=UTC), datetime(2104, 2, 29, tzinfo=UTC)
    assert cron("first", compile_cron("0 0 29 2 *"), ms(start), True) == ms(leap)


def test_no_call_follows_the_long_freeze_windows_of_many_builds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call may look at hundreds of builds. Each of them costs some days of the calendar at most,
    and nothing more where their windows are the same."""

    def counting(package: str, script: str) -> LuaScript:
        text, line = load(package, script).source, "local function date(days)\n"
        return LuaScript(script, text.replace(line, f'{line}redis.call("INCR", "days")\n'))

    monkeypatch.setattr("holdfast.builds.queue.load", counting)
    builds = 60

    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            b = Bench(client)
            b.now_ms = ms(datetime(2024, 2, 29, 23, 59, tzinfo=UTC))  # the last minute for years

            async def days(call: Awaitable[object]) -> int:
                await client.delete("days")
                await call
                return int(await client.get("days") or 0)

            for n in range(builds):
                windows = ["* * * 1,3-12 *", "* * 1-28 2 *", f"{n % 3} 0 29 2 *"]
                for job in ("waits", f"ready-{n}"):
                    await b.queue.enqueue(Build(None, job, freeze=windows))
            b.pass_min(1)
            assert 0 < await days(b.queue.list(limit=1000)) <= 3
            assert 0 < await days(b.queue.claim("w", 30)) <= 3 * 50

    asyncio.run(scenario())
