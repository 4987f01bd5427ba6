"""The dashboard and the alerts ask for metrics and labels that servers have."""

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from prometheus_client.parser import text_string_to_metric_families

import holdfast
from holdfast.builds import Build, BuildQueue
from holdfast.client import Client
from holdfast.semaphore import Semaphore
from holdfast.server.http.metric_table import METRICS
from scripts import generate_dashboard, generate_metrics
from tests.harness import HoldfastServer
from tests.harness.http import HttpPort, start_with_http
from tests.harness.processes import free_port, wait_until

# One server says something for every metric, so it also has what should not be shared.
pytestmark = pytest.mark.filterwarnings("ignore:.* is on an active-active database:RuntimeWarning")

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "contrib" / "alerts.yml"
TOOLS = ROOT / "build" / "monitors" / "usr" / "bin"
OF_PROMETHEUS = {"job", "instance"}  # labels that a scrape gets from its target

# An expression in one line, or folded in several.
EXPRESSION = r"^        expr: (?:>-\n +)?((?:.+\n)+?)        \w"

Series = dict[str, set[str]]  # names with their labels


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{TOOLS}:{Path('/usr/bin')}:{Path('/usr/local/bin')}")
    if found is None:
        pytest.skip(f"{name} is not installed: scripts/install-monitors does it")
    return found


# -- queries ---------------------------------------------------------------------------------------


def panels() -> Iterator[dict[str, Any]]:
    for panel in json.loads(generate_dashboard.TARGET.read_text())["panels"]:
        if panel["type"] != "row":
            yield panel


def queries() -> Iterator[tuple[str, set[str]]]:
    """PromQL, and the labels that a legend shows."""
    for panel in panels():
        for target in panel["targets"]:
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            yield target["expr"].replace("$__rate_interval", "5m"), legend
    alerts = re.findall(EXPRESSION, ALERTS.read_text(), re.MULTILINE)
    assert len(alerts) == ALERTS.read_text().count("alert:")
    for query in alerts:
        if not query.startswith("up{"):  # which Prometheus itself has
            yield query, set()


def asked(query: str) -> tuple[Series, set[str]]:
    """The series that a query selects with the labels of their matchers, and the labels that it
    groups by."""
    series: Series = {}
    groups: set[str] = set()

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            labels = {each.name for each in node.matchers.matchers}
            series.setdefault(node.name or "", set()).update(labels)
        elif isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            groups.update(node.modifier.labels)

    promql_parser.walk(promql_parser.parse(query), visit)
    return series, groups


def test_the_dashboard_is_up_to_date() -> None:
    assert generate_dashboard.TARGET.read_text() == generate_dashboard.generate(), "run `make docs`"


def test_the_dashboard_shows_every_metric() -> None:
    shown = {name for query, _ in queries() for name in asked(query)[0]}
    suffixes = ("_bucket", "_count", "_sum")
    bare = {next((n.removesuffix(s) for s in suffixes if n.endswith(s)), n) for n in shown}
    assert {metric.name for metric in METRICS} - bare == {
        "holdfast_build_info",  # fills the variables of the dashboard
        "holdfast_uptime_seconds",
    }


def test_legends_show_labels_that_the_query_keeps() -> None:
    for query, legend in queries():
        assert legend <= asked(query)[1], query


# -- against servers -------------------------------------------------------------------------------


async def connected(url: str) -> Client:
    client = holdfast.connect(url)
    await client.connect()
    return client


@pytest.fixture
def everything(start_server: Callable[..., HoldfastServer]) -> Iterator[HttpPort]:
    """A server that has something to say for every metric."""
    ports = [free_port(), free_port()]
    urls = [f"redis://127.0.0.1:{port}" for port in ports]
    shared = ("--active-active", "yes")
    first, http = start_with_http(
        start_server, "--port", str(ports[0]), "--node-id", "1", "--peer", urls[1], *shared
    )
    args = ("--port", str(ports[1]), "--node-id", "2", "--peer", urls[0])
    second = start_server(*args, *shared)

    def is_writable(server: HoldfastServer) -> bool:
        return server.client().command("SET", "a", "1", "EX", "100") == b"+OK\r\n"

    for server in (first, second):
        wait_until(lambda server=server: is_writable(server), "the servers have met")  # type: ignore[misc]
    first.client().command("LPUSH", "a", "x")
    with asyncio.Runner() as runner:
        client = runner.run(connected(urls[0]))
        semaphore = Semaphore(client, "gpu", 1)
        runner.run(semaphore.acquire())
        runner.run(BuildQueue(client).enqueue(Build(None, "deploy")))
        wait_until(lambda: "holdfast_peer_unsent_records{" in http.get("/metrics").body, "links")
        yield http
        runner.run(semaphore.close())
        runner.run(client.close())


def test_queries_name_series_that_a_server_has(everything: HttpPort) -> None:
    there: Series = {}
    for family in text_string_to_metric_families(everything.get("/metrics").body):
        for sample in family.samples:
            there.setdefault(sample.name, set()).update(sample.labels)
    exported = {metric.name: {*metric.labels} for metric in METRICS}
    missing = {name for name in exported if not any(each.startswith(name) for each in there)}
    assert not missing
    count = 0
    for query, _ in queries():
        series, groups = asked(query)
        assert series, query
        labels = set().union(*(there.get(name, set()) for name in series))
        for name, matched in series.items():
            count += 1
            assert name in there, query
            assert matched <= there.get(name, set()) | OF_PROMETHEUS, query
        assert groups <= labels | OF_PROMETHEUS, query
    assert count > 60


def test_alerts_are_rules_of_prometheus() -> None:
    done = subprocess.run([tool("promtool"), "check", "rules", str(ALERTS)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_what_servers_say_is_fit_for_prometheus(everything: HttpPort) -> None:
    text = everything.get("/metrics").body.encode()
    done = subprocess.run([tool("promtool"), "check", "metrics"], input=text, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_the_exporter_for_redis_works(start_server: Callable[..., HoldfastServer]) -> None:
    """prometheus-redis-exporter, unmodified."""
    exporter = tool("prometheus-redis-exporter")
    server = start_server()
    client = server.client()
    client.command("SET", "a", "1", "EX", "100")
    client.command("GET", "a")
    http = HttpPort(free_port())
    options = ["-redis.addr", f"redis://127.0.0.1:{server.port}"]
    process = subprocess.Popen(
        [exporter, *options, "-web.listen-address", f"127.0.0.1:{http.port}"],
        stderr=subprocess.DEVNULL,
    )
    try:

        def is_up() -> bool:
            try:
                return "\nredis_up 1" in http.send(b"GET /metrics HTTP/1.0\r\n\r\n").body
            except OSError:
                return False

        wait_until(is_up, "the exporter has asked the server")
        body = http.send(b"GET /metrics HTTP/1.0\r\n\r\n").body
    finally:
        process.terminate()
        process.wait()
    assert 'redis_db_keys{db="db0"} 1' in body
    assert 'redis_db_keys_expiring{db="db0"} 1' in body
    assert 'redis_commands_total{cmd="get"} 1' in body
    assert "redis_exporter_last_scrape_error{" in body
    assert re.search(r'redis_exporter_last_scrape_error\{err=""\} 0', body)


def test_the_guide_lists_every_metric() -> None:
    assert generate_metrics.TARGET.read_text() == generate_metrics.generate(), "run `make docs`"
