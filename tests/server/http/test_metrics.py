"""What `/metrics` says: the numbers of INFO, bounded labels, and semaphores and builds by index."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from holdfast.builds.build_states import State
from holdfast.coordination import lua_scripts
from holdfast.scripting.script import Role
from holdfast.semaphore.names import Names
from holdfast.server.http.coordination_metrics import MOST_QUEUES, MOST_SEMAPHORES, STATES
from holdfast.server.http.exposition import Exposition
from holdfast.server.http.metric_table import METRICS, MOST_ERRORS, Type
from holdfast.server.scripts.coordination_index import (
    MOST,
    QUEUE,
    SEMAPHORE,
    CoordinationIndex,
    role_of,
)
from tests.harness import HoldfastServer
from tests.harness.http import HttpPort, StartServer, start_with_http
from tests.harness.in_process import InProcess


def samples_of(text: str) -> list[Sample]:
    """All lines, read by prometheus_client. None may come twice."""
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    names = [(each.name, *sorted(each.labels.items())) for each in samples]
    assert len(names) == len(set(names))
    return samples


def value(samples: list[Sample], name: str, **labels: str) -> float:
    (found,) = [each for each in samples if each.name == name and each.labels == labels]
    return found.value


def scraped(world: InProcess) -> list[Sample]:
    return samples_of(b"".join(Exposition(world.engine).pieces()).decode())


@pytest.fixture
def served(start_server: StartServer) -> tuple[HoldfastServer, HttpPort]:
    return start_with_http(start_server)


# -- names -----------------------------------------------------------------------------------------


def test_names_follow_the_conventions_of_prometheus() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    for metric in METRICS:
        assert metric.name.startswith("holdfast_")
        assert metric.name.endswith("_total") == (metric.type is Type.COUNTER), metric.name
        assert not set(metric.name.split("_")) & {"ms", "us", "ns", "kb", "mb", "percent"}
        if metric.type is Type.HISTOGRAM:
            assert metric.name.endswith("_seconds")
        assert metric.meaning.endswith(".")
        assert "le" not in metric.labels


# -- numbers ---------------------------------------------------------------------------------------


def test_commands_are_counted_as_in_info() -> None:
    world = InProcess()
    peer = world.peer()
    for command in (["SET", "a", "1"], ["GET", "a"], ["GET", "b"], ["LPUSH", "a", "x"], ["GET"]):
        peer.command(*command)
    samples = scraped(world)
    count = "holdfast_command_duration_seconds_count"
    assert value(samples, count, command="get") == 2
    assert value(samples, count, command="lpush") == 1
    assert value(samples, "holdfast_commands_failed_total", command="lpush") == 1
    assert value(samples, "holdfast_commands_rejected_total", command="get") == 1
    assert value(samples, "holdfast_error_replies_total", error="WRONGTYPE") == 1
    assert value(samples, "holdfast_keyspace_hits_total") == 1
    assert value(samples, "holdfast_keyspace_misses_total") == 1
    assert value(samples, "holdfast_keys", db="0") == 1


def test_buckets_grow_to_the_count() -> None:
    world = InProcess()
    stats = world.engine.commands.stats_of(world.engine.commands.table["get"])
    for ns in (100, 1023, 1024, 70_000, 2_000_000, 10**10):
        stats.record(ns)
    name = "holdfast_command_duration_seconds"
    found = [
        (each.labels["le"], each.value) for each in scraped(world) if each.name == f"{name}_bucket"
    ]
    counts = [count for _, count in found]
    assert counts == sorted(counts)
    assert found[:2] == [("1.024e-06", 2), ("2.048e-06", 3)]
    assert dict(found)["0.000131072"] == 4
    assert found[-2:] == [("1.073741824", 5), ("+Inf", 6)]
    assert value(scraped(world), f"{name}_sum", command="get") == pytest.approx(10.002072)


def test_syncs_are_timed(served: tuple[HoldfastServer, HttpPort]) -> None:
    server, http = served
    client = server.client()
    for number in range(5):
        client.command("SET", "k", number)
    samples = samples_of(http.get("/metrics").body)
    syncs = value(samples, "holdfast_sync_duration_seconds_count")
    assert syncs >= 5
    assert value(samples, "holdfast_sync_duration_seconds_bucket", le="+Inf") == syncs
    assert value(samples, "holdfast_sync_duration_seconds_sum") > 0
    assert b"holdfast_syncs:%d\r\n" % syncs in client.command("INFO", "persistence")


def test_a_scrape_changes_nothing() -> None:
    """An expired key stays until the server removes it, and no read is counted."""
    world = InProcess()
    peer = world.peer()
    peer.command("SET", "a", "1", "PX", "5")
    before = world.engine.keyspace.changes
    scraped(world)
    assert world.engine.keyspace.changes == before
    assert world.engine.keyspace.misses == 0


# -- labels ----------------------------------------------------------------------------------------


def test_errors_of_scripts_do_not_make_labels_without_end() -> None:
    world = InProcess()
    peer = world.peer()
    for number in range(MOST_ERRORS + 10):
        peer.command("EVAL", f"return redis.error_reply('E{number} x')", 0)
    labels = [
        each.labels["error"]
        for each in scraped(world)
        if each.name == "holdfast_error_replies_total"
    ]
    assert len(labels) == MOST_ERRORS + 1
    assert value(scraped(world), "holdfast_error_replies_total", error="other") == 10


def test_unknown_commands_make_no_labels() -> None:
    world = InProcess()
    peer = world.peer()
    for number in range(100):
        peer.command(f"NONSENSE{number}")
    assert not [each for each in scraped(world) if "nonsense" in str(each.labels).lower()]


# -- semaphores and builds -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "kind", "without"),
    [("holdfast.semaphore", SEMAPHORE, {"queue"}), ("holdfast.builds", QUEUE, set())],
)
def test_the_server_recognises_the_scripts(package: str, kind: str, without: set[str]) -> None:
    """`queue` of the semaphore has no key of holders; every client of it calls others, too."""
    for name in set(lua_scripts.names(package)) - without:
        script = lua_scripts.load(package, name)
        role = role_of(script.source.encode())
        assert role is not None, name
        assert role.kind == kind
        assert script.keys[role.key_number - 1] == ("main" if kind == SEMAPHORE else "queue")


def test_states_are_those_of_builds() -> None:
    assert set(STATES) == {state.name for state in State}


NASTY = 'quo"te\nnew\\line'


class Coordination(InProcess):
    """A server that keeps the index, as with `http-port`."""

    def __init__(self) -> None:
        super().__init__()
        self.engine.scripts.index = CoordinationIndex()
        self._peer = self.peer()

    def run(self, package: str, name: str, keys: dict[str, object], **args: object) -> None:
        script = lua_scripts.load(package, name)
        reply = self._peer.command("EVAL", script.source, *script.command(keys, args))
        assert not reply.startswith(b"-"), reply

    def enter(self, name: str, who: str, limit: int = 1, hash_tag: bool = True) -> None:
        names = Names("ns", name, hash_tag=hash_tag)
        self.run(
            "holdfast.semaphore",
            "enter",
            dict(names.keys),
            acquisition_id=who,
            limit=limit,
            heartbeat_max_interval=10,
            ttl="",
            now="",
            acquisition_notification_key_pattern=names.pattern,
            is_exact="",
        )

    def enqueue(self, queue: str, job: str) -> None:
        fields = ["job", job, "same_job_wait_ms", 0, "priority", 0, "retries", 0]
        fields += ["backoff_ms", 0, "keep_ms", 1000, "keep_events", 10]
        args: dict[str, object] = {"now": "", "id": "", "once": job, "fields": fields}
        self.run("holdfast.builds", "enqueueBuild", {"queue": queue}, **args)


def semaphore(samples: list[Sample], name: str) -> tuple[float, ...]:
    labels = {"db": "0", "namespace": "ns", "semaphore": name}
    whats = ("holders", "waiters", "limit")
    return tuple(value(samples, f"holdfast_semaphore_{what}", **labels) for what in whats)


@pytest.mark.parametrize("name", ["gpu", NASTY, "{}", "ü", ":semaphore_main:"])
@pytest.mark.parametrize("hash_tag", [True, False])
def test_holders_and_waiters(name: str, hash_tag: bool) -> None:
    world = Coordination()
    for who in ("a", "b", "c", "d"):
        world.enter(name, who, limit=1, hash_tag=hash_tag)
    shown = "" if name == "{}" and not hash_tag else name
    assert semaphore(scraped(world), shown) == (1, 3, 1)


def test_a_lease_that_ended_does_not_count() -> None:
    world = Coordination()
    world.enter("gpu", "a", limit=2)
    world.clock.advance(6)
    world.enter("gpu", "b", limit=2)
    assert semaphore(scraped(world), "gpu") == (2, 0, 2)
    world.clock.advance(6)
    assert semaphore(scraped(world), "gpu") == (1, 0, 2)
    world.clock.advance(60)
    assert "semaphore" not in str(scraped(world))
    assert not world.engine.scripts.index.names[SEMAPHORE]  # type: ignore[union-attr]


def test_many_semaphores_are_summed() -> None:
    world = Coordination()
    for number in range(MOST_SEMAPHORES + 7):
        world.enter(f"s{number}", "a")
    world.enter("s3", "b")
    samples = scraped(world)
    holders = [each for each in samples if each.name == "holdfast_semaphore_holders"]
    assert len(holders) == MOST_SEMAPHORES + 1
    assert sum(each.value for each in holders) == MOST_SEMAPHORES + 7
    other = {"db": "other", "namespace": "other", "semaphore": "other"}
    assert value(samples, "holdfast_semaphore_holders", **other) == 7
    assert semaphore(samples, "s3") == (1, 1, 1)


def test_names_that_are_equal_as_labels_are_summed() -> None:
    world = Coordination()
    world.enter("x" * 300 + "1", "a")
    world.enter("x" * 300 + "2", "a")
    assert semaphore(scraped(world), "x" * 200)[0] == 2


def test_the_index_is_bounded() -> None:
    index = CoordinationIndex()
    for number in range(MOST[SEMAPHORE] + 5):
        index.note(Role(SEMAPHORE, 1), 0, [b"EVAL", b"", b"1", b"%d" % number], 1)
    assert len(index.names[SEMAPHORE]) == MOST[SEMAPHORE]
    assert (0, b"4") not in index.names[SEMAPHORE]
    index.note(Role(SEMAPHORE, 2), 0, [b"EVAL", b"", b"1", b"key", b"argument"], 1)
    assert (0, b"argument") not in index.names[SEMAPHORE]


def test_builds_by_state() -> None:
    world = Coordination()
    for job in ("a", "a", "b"):
        world.enqueue("{ci}", job)
    world.enqueue("{ci}", "a2")
    samples = scraped(world)
    counts = {
        state: value(samples, "holdfast_builds", db="0", queue="ci", state=state)
        for state in STATES
    }
    assert counts == dict.fromkeys(STATES, 0) | {"READY": 3}


def test_many_queues_are_summed() -> None:
    world = Coordination()
    for number in range(MOST_QUEUES + 3):
        world.enqueue(f"{{q{number}}}", "job")
    ready = [
        each
        for each in scraped(world)
        if each.name == "holdfast_builds" and each.labels["state"] == "READY"
    ]
    assert len(ready) == MOST_QUEUES + 1
    assert sum(each.value for each in ready) == MOST_QUEUES + 3


def test_without_http_port_nothing_is_noted() -> None:
    assert InProcess().engine.scripts.index is None
