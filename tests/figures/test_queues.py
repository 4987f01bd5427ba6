"""The search for queues that grow: what it finds, and how little it asks for."""

from collections.abc import Iterable

import pytest

from holdfast.commands.table import TABLE
from holdfast.figures.queues import (
    COUNT,
    GROWN_BY,
    LENGTH_OF,
    MOST_WAITING,
    MOST_WATCHED,
    PROBATION,
    WINDOW,
    Queue,
    QueueWatch,
)


def found(watch: QueueWatch, names: Iterable[bytes], kind: str = "list") -> None:
    """A scan of everything, which finds these."""
    watch.begin_interval()
    while (asked := watch.next_scan()) is not None:
        watch.scanned(asked[0], b"0", names if asked[0] == kind else [])


def measure(watch: QueueWatch, at_s: float, lengths: dict[bytes, int | None]) -> list[Queue]:
    queues = watch.to_measure()
    watch.measured(at_s, queues, [lengths.get(queue.name, 1) for queue in queues])
    return queues


def test_a_queue_that_grows() -> None:
    watch = QueueWatch()
    found(watch, [b"jobs", b"still"])
    measure(watch, 10.0, {b"jobs": 5})
    assert watch.growing() == []
    measure(watch, 12.0, {b"jobs": 11})
    (growth,) = watch.growing()
    assert (growth.queue, growth.length, growth.per_s) == (Queue("list", b"jobs"), 11, 3.0)


def test_growth_is_that_of_the_last_measurements() -> None:
    watch = QueueWatch()
    found(watch, [b"jobs"])
    for second in range(5):
        measure(watch, second, {b"jobs": 100 + second})
    for second in range(5, 5 + WINDOW):
        measure(watch, second, {b"jobs": 104})
    assert watch.growing() == []


def test_the_fastest_comes_first() -> None:
    watch = QueueWatch()
    found(watch, [b"slow", b"fast"])
    measure(watch, 0.0, {})
    measure(watch, 1.0, {b"slow": 2, b"fast": 9})
    assert [growth.queue.name for growth in watch.growing()] == [b"fast", b"slow"]


def test_an_empty_queue_is_dropped_and_found_again() -> None:
    watch = QueueWatch()
    found(watch, [b"jobs"])
    measure(watch, 0.0, {b"jobs": 0})
    assert watch.to_measure() == []
    found(watch, [b"jobs"])
    assert watch.to_measure() == [Queue("list", b"jobs")]


def test_a_queue_that_the_server_does_not_show_is_not_asked_for_again() -> None:
    watch = QueueWatch()
    found(watch, [b"secret"])
    measure(watch, 0.0, {b"secret": None})
    found(watch, [b"secret"])
    assert watch.to_measure() == []


def test_a_round_goes_through_all_types_once_in_an_interval() -> None:
    watch = QueueWatch()
    watch.begin_interval()
    asked = []
    while (scan := watch.next_scan()) is not None:
        asked.append(scan)
        watch.scanned(scan[0], b"0", [])
    assert asked == [(kind, b"0") for kind in LENGTH_OF]
    assert watch.rounds == 1
    watch.begin_interval()
    assert watch.next_scan() == ("list", b"0")


def test_a_scan_goes_on_where_it_was_in_the_interval_before() -> None:
    watch = QueueWatch()
    watch.begin_interval()
    watch.scanned("list", b"17", [])
    assert watch.next_scan() == ("stream", b"0")
    watch.scanned("stream", b"0", [])
    watch.scanned("zset", b"9", [])
    watch.begin_interval()
    assert watch.next_scan() == ("list", b"17")
    watch.scanned("list", b"0", [])
    assert watch.next_scan() == ("zset", b"9")
    assert watch.rounds == 0
    watch.scanned("zset", b"0", [])
    assert watch.rounds == 1


def test_the_share_of_keys_that_were_looked_at() -> None:
    watch = QueueWatch()
    watch.begin_interval(["rpush"])
    watch.scanned("list", b"17", [])
    assert watch.scanned_share(10 * COUNT) == 0.1
    assert watch.scanned_share(0) == 0.99
    watch.scanned("list", b"0", [])
    assert watch.scanned_share(10 * COUNT) == 1.0


def test_a_server_where_nothing_can_grow_is_not_scanned() -> None:
    watch = QueueWatch()
    watch.begin_interval(["get", "set", "lpop"])
    assert watch.next_scan() is None
    assert watch.scanned_share(1000) == 1.0


def test_a_type_is_looked_for_from_its_first_addition_on() -> None:
    watch = QueueWatch()
    watch.begin_interval(["rpush"])
    watch.scanned("list", b"0", [])
    watch.begin_interval(["rpush", "xadd"])
    watch.scanned("list", b"0", [])
    assert watch.next_scan() == ("stream", b"0")
    assert watch.scanned_share(10_000) < 1.0


@pytest.mark.parametrize("name", sorted(set().union(*GROWN_BY.values())))
def test_the_commands_that_make_queues_grow_exist(name: str) -> None:
    assert name in TABLE
    assert "write" in TABLE[name].flags


def test_no_more_queues_than_the_limit_are_asked_for() -> None:
    watch = QueueWatch()
    found(watch, [b"%d" % n for n in range(2 * MOST_WAITING)])
    assert len(watch.to_measure()) == MOST_WATCHED
    watch.begin_interval()
    assert watch.next_scan() is None, "enough are waiting"


def test_queues_that_do_not_grow_make_room_for_others() -> None:
    watch = QueueWatch()
    crowd = [b"%d" % n for n in range(MOST_WATCHED - 1)]
    found(watch, [b"jobs", *crowd])
    for second in range(PROBATION):
        measure(watch, second, {b"jobs": second + 1})
    found(watch, [b"late 1", b"late 2"])
    names = [queue.name for queue in watch.to_measure()]
    assert len(names) == MOST_WATCHED
    assert {b"jobs", b"late 1", b"late 2"} <= {*names}
    assert not {b"0", b"1"} & {*names}, "those that were watched for longest"


def test_a_queue_among_very_many_is_found() -> None:
    """Whatever its length is: those that stand still go, those that grow stay."""
    watch = QueueWatch()
    names = [b"%d" % n for n in range(20 * MOST_WATCHED)]
    lengths: dict[bytes, int | None] = dict.fromkeys(names, 1000)
    pages = [names[n : n + COUNT] for n in range(0, len(names), COUNT)]
    for second in range(1000):
        lengths[b"777"] = second
        watch.begin_interval(["rpush"])
        while (asked := watch.next_scan()) is not None:
            page = int(asked[1])
            watch.scanned("list", b"%d" % ((page + 1) % len(pages)), pages[page])
        assert len(measure(watch, second, lengths)) <= MOST_WATCHED
        if watch.growing():
            break
    assert [growth.queue.name for growth in watch.growing()] == [b"777"]
