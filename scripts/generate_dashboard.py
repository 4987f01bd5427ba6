"""Writes contrib/grafana-dashboard.json. `make docs` runs this script; a test checks that the file
is up to date, and that every query names metrics and labels that a server has."""

import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "contrib" / "grafana-dashboard.json"

ALL = '{job=~"$job",instance=~"$instance"}'
RATE = "$__rate_interval"

Query = tuple[str, str]  # PromQL, legend
Panel = tuple[str, str, list[Query]]  # title, unit, queries


def rate(name: str, by: str = "instance") -> str:
    return f"sum by ({by}) (rate({name}{ALL}[{RATE}]))"


def total(name: str, by: str = "instance") -> str:
    return f"sum by ({by}) ({name}{ALL})"


def quantile(share: float, name: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {rate(f'{name}_bucket', labels)})"


def share(part: str, rest: str) -> str:
    return f"{part} / ({part} + {rest})"


def builds(states: str) -> str:
    series = f'holdfast_builds{{job=~"$job",instance=~"$instance",state=~"{states}"}}'
    return f"sum by (queue, state) ({series})"


def top(query: str) -> str:
    return f"topk(10, {query})"


CALLS = "holdfast_command_duration_seconds"
SYNCS = "holdfast_sync_duration_seconds"
PEER = "{{instance}} → {{address}}"
SEMAPHORE = "db, namespace, semaphore"

ROWS: dict[str, list[Panel]] = {
    "Traffic": [
        ("Ready", "bool_yes_no", [(total("holdfast_ready"), "{{instance}}")]),
        ("Commands", "ops", [(top(rate(f"{CALLS}_count", "command")), "{{command}}")]),
        (
            "Errors",
            "ops",
            [
                (top(rate("holdfast_error_replies_total", "error")), "{{error}}"),
                (rate("holdfast_commands_rejected_total"), "refused: {{instance}}"),
            ],
        ),
        (
            "Failed calls",
            "ops",
            [(top(rate("holdfast_commands_failed_total", "command")), "{{command}}")],
        ),
        (
            "Network",
            "Bps",
            [
                (rate("holdfast_network_received_bytes_total"), "received: {{instance}}"),
                (rate("holdfast_network_sent_bytes_total"), "sent: {{instance}}"),
            ],
        ),
        (
            "Reads that find a key",
            "percentunit",
            [
                (
                    share(
                        rate("holdfast_keyspace_hits_total"),
                        rate("holdfast_keyspace_misses_total"),
                    ),
                    "{{instance}}",
                )
            ],
        ),
        ("Processor", "short", [(rate("holdfast_cpu_seconds_total", "mode"), "{{mode}}")]),
    ],
    "Latency": [
        (
            "All commands",
            "s",
            [(quantile(share, CALLS), f"p{share * 100:g}") for share in (0.5, 0.99, 0.999)],
        ),
        ("Slowest commands, p99", "s", [(top(quantile(0.99, CALLS, "command")), "{{command}}")]),
        ("Time by command", "percentunit", [(top(rate(f"{CALLS}_sum", "command")), "{{command}}")]),
    ],
    "Memory": [
        (
            "Memory",
            "bytes",
            [
                (total("holdfast_memory_used_bytes"), "keys: {{instance}}"),
                (total("holdfast_memory_max_bytes"), "maxmemory: {{instance}}"),
                (total("holdfast_memory_resident_bytes"), "process: {{instance}}"),
                (total("holdfast_memory_scripts_bytes"), "Lua: {{instance}}"),
            ],
        ),
        (
            "Keys",
            "short",
            [
                (total("holdfast_keys", "db"), "db {{db}}"),
                (total("holdfast_expiring_keys", "db"), "db {{db}}, with an expiry"),
            ],
        ),
        (
            "Keys that go",
            "ops",
            [
                (rate("holdfast_keys_expired_total"), "expired: {{instance}}"),
                (rate("holdfast_keys_evicted_total"), "evicted: {{instance}}"),
                (rate("holdfast_keys_forgotten_total"), "forgotten by memory: {{instance}}"),
            ],
        ),
    ],
    "Durability": [
        (
            "Sync",
            "s",
            [(quantile(share, SYNCS), f"p{share * 100:g}") for share in (0.5, 0.99)],
        ),
        ("Syncs", "ops", [(rate(f"{SYNCS}_count"), "{{instance}}")]),
        (
            "Fold: changes that wait",
            "short",
            [
                (total("holdfast_fold_backlog_changes"), "{{instance}}"),
                (total("holdfast_journal_rows"), "batches in the journal: {{instance}}"),
            ],
        ),
        ("Fold: memory", "bytes", [(total("holdfast_fold_backlog_bytes"), "{{instance}}")]),
        (
            "Fold: age of the oldest change",
            "s",
            [(total("holdfast_fold_backlog_age_seconds"), "{{instance}}")],
        ),
        (
            "Files",
            "bytes",
            [
                (total("holdfast_file_bytes"), "database: {{instance}}"),
                (total("holdfast_wal_bytes"), "WAL: {{instance}}"),
            ],
        ),
        (
            "Free space",
            "percentunit",
            [
                (
                    f"{total('holdfast_disk_free_bytes')} / {total('holdfast_disk_size_bytes')}",
                    "{{instance}}",
                )
            ],
        ),
        ("Checkpoints", "ops", [(rate("holdfast_checkpoints_total"), "{{instance}}")]),
        ("Disk works", "bool_yes_no", [(total("holdfast_storage_ok"), "{{instance}}")]),
    ],
    "Clients": [
        (
            "Clients",
            "short",
            [
                (total("holdfast_connected_clients"), "connected: {{instance}}"),
                (total("holdfast_blocked_clients"), "blocked: {{instance}}"),
                (total("holdfast_max_clients"), "maxclients: {{instance}}"),
            ],
        ),
        (
            "Connections",
            "ops",
            [
                (rate("holdfast_connections_received_total"), "accepted: {{instance}}"),
                (rate("holdfast_connections_rejected_total"), "refused: {{instance}}"),
                (rate("holdfast_clients_evicted_total"), "cut off: {{instance}}"),
            ],
        ),
        ("Channels", "short", [(total("holdfast_pubsub_channels"), "{{instance}}")]),
    ],
    "Replication": [
        ("Links", "bool_yes_no", [(total("holdfast_peer_up", "instance, address"), PEER)]),
        ("Lag", "s", [(total("holdfast_peer_lag_seconds", "instance, address"), PEER)]),
        (
            "Records and events that wait",
            "short",
            [
                (total("holdfast_peer_lag_events", "instance, address"), f"to come: {PEER}"),
                (total("holdfast_peer_unsent_records", "instance, address"), f"to go: {PEER}"),
            ],
        ),
        (
            "Bytes",
            "Bps",
            [
                (rate("holdfast_peer_received_bytes_total", "instance, address"), f"in: {PEER}"),
                (rate("holdfast_peer_sent_bytes_total", "instance, address"), f"out: {PEER}"),
            ],
        ),
        (
            "Clocks that are off",
            "s",
            [(total("holdfast_peer_clock_drift_seconds", "instance, address"), PEER)],
        ),
    ],
    "Semaphores and builds": [
        (
            "Semaphores: waiters",
            "short",
            [(top(total("holdfast_semaphore_waiters", SEMAPHORE)), "{{namespace}} {{semaphore}}")],
        ),
        (
            "Semaphores: slots in use",
            "percentunit",
            [
                (
                    top(
                        f"{total('holdfast_semaphore_holders', SEMAPHORE)}"
                        f" / ({total('holdfast_semaphore_limit', SEMAPHORE)} > 0)"
                    ),
                    "{{namespace}} {{semaphore}}",
                )
            ],
        ),
        (
            "Builds that have not ended",
            "short",
            [(builds("QUEUED|BLOCKED|FROZEN|READY|RUNNING"), "{{queue}} {{state}}")],
        ),
        (
            "Builds that ended, while they are kept",
            "short",
            [(builds("SUCCESS|FAILURE|ABORTED|COLLAPSED"), "{{queue}} {{state}}")],
        ),
    ],
}


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    y = 0
    for row, charts in ROWS.items():
        panels.append(_place({"type": "row", "title": row, "panels": []}, 0, y, 24, 1))
        y += 1
        for number, chart in enumerate(charts):
            panels.append(_place(_chart(*chart), number % 3 * 8, y + number // 3 * 8, 8, 8))
        y += (len(charts) + 2) // 3 * 8
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return {
        "uid": "holdfast",
        "title": "Holdfast",
        "tags": ["holdfast"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": panels,
    }


def _place(panel: dict[str, Any], x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return panel | {"gridPos": {"x": x, "y": y, "w": width, "h": height}}


def _chart(title: str, unit: str, queries: list[Query]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"showLegend": True, "displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(65 + n), "expr": query, "legendFormat": legend, "datasource": source}
            for n, (query, legend) in enumerate(queries)
        ],
    }


def _variables() -> list[dict[str, Any]]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    common = {"type": "query", "datasource": source, "refresh": 2, "includeAll": True}
    common |= {"multi": True, "current": {"text": "All", "value": "$__all"}}
    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
        common | {"name": "job", "query": "label_values(holdfast_build_info, job)"},
        common
        | {"name": "instance", "query": 'label_values(holdfast_build_info{job=~"$job"}, instance)'},
    ]


def generate() -> str:
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(generate())
