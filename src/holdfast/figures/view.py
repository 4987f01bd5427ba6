"""The figures of a server, from two samples of it. No I/O.

The fields of `View` are those of a line of `holdfast top --json`. None means that the server did
not say.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from holdfast.figures.queues import Growth
from holdfast.figures.sample import Buckets, Calls, Missing, Sample, read_fields


@dataclass(frozen=True, slots=True)
class CommandView:
    """The calls of one command between two samples."""

    name: str
    calls_per_s: float
    time_share: float  # the part of the server's time that they took
    mean_us: float
    p50_us: float | None
    p99_us: float | None
    failed_per_s: float


@dataclass(frozen=True, slots=True)
class SlowView:
    """An entry of the slow log."""

    age_s: float
    took_us: int
    command: str


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue that grows."""

    name: str
    type: str
    length: int
    growth_per_s: float


@dataclass(frozen=True, slots=True)
class PeerView:
    """A server that this one exchanges changes with: a peer, a replica or a master."""

    name: str
    state: str
    lag_s: float | None
    lag_events: int | None
    error: str


@dataclass(frozen=True, slots=True)
class ErrorView:
    """The error replies of one code."""

    code: str
    count: int  # since the start of the server
    per_s: float


@dataclass(frozen=True, slots=True)
class View:
    """A server in figures."""

    address: str
    at: float  # Unix time, of this machine
    trouble: str | None = None  # why there are no figures
    notices: tuple[str, ...] = ()
    server: str | None = None
    uptime_s: float | None = None
    round_trip_s: float | None = None
    interval_s: float | None = None

    ops_per_s: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    cpu_share: float | None = None
    errors_per_s: float | None = None
    received_bytes_per_s: float | None = None
    sent_bytes_per_s: float | None = None

    clients: int | None = None
    blocked_clients: int | None = None
    max_clients: int | None = None

    keys: int | None = None
    memory_bytes: int | None = None
    max_memory_bytes: int | None = None
    resident_bytes: int | None = None
    evicted_per_s: float | None = None
    expired_per_s: float | None = None
    hit_share: float | None = None  # of the reads of keys, those that found one

    fold_backlog_changes: int | None = None
    fold_backlog_bytes: int | None = None
    fold_backlog_age_s: float | None = None
    wal_bytes: int | None = None
    file_bytes: int | None = None
    syncs_per_s: float | None = None

    replication_lag_s: float | None = None
    peers: tuple[PeerView, ...] = ()
    commands: tuple[CommandView, ...] = ()
    slow: tuple[SlowView, ...] = ()
    errors: tuple[ErrorView, ...] = ()
    queues: tuple[QueueView, ...] = ()
    scanned_share: float | None = None  # of the keys, in the search for queues
    missing: tuple[Missing, ...] = ()


def compare(
    address: str,
    at: float,
    before: Sample | None,
    now: Sample,
    growing: Iterable[Growth] = (),
    scanned_share: float | None = None,
    missing: Iterable[Missing] = (),
) -> View:
    """The view of `now`. Rates are those since `before`. There are none without it, or if the
    server has restarted since."""
    restarted = before is not None and before.facts.get("run_id") != now.facts.get("run_id")
    past = None if restarted else before
    peers = tuple(_peers(now))
    commands = tuple(_commands(past, now))
    p50_us, p99_us = _percentiles(past, now, [each.name for each in commands])
    return View(
        address=address,
        at=at,
        notices=tuple(_notices(now, restarted)),
        server=_server(now.facts),
        uptime_s=now.number("uptime_in_seconds"),
        round_trip_s=now.round_trip_s,
        interval_s=None if past is None else now.at_s - past.at_s,
        ops_per_s=_rate_without(
            past, now, "total_commands_processed", lambda sample: sample.own_calls
        ),
        p50_us=p50_us,
        p99_us=p99_us,
        cpu_share=_total(_rate(past, now, "used_cpu_sys"), _rate(past, now, "used_cpu_user")),
        errors_per_s=_rate_without(
            past, now, "total_error_replies", lambda sample: sample.own_failures
        ),
        received_bytes_per_s=_rate(past, now, "total_net_input_bytes"),
        sent_bytes_per_s=_rate(past, now, "total_net_output_bytes"),
        clients=_whole(now, "connected_clients"),
        blocked_clients=_whole(now, "blocked_clients"),
        max_clients=_whole(now, "maxclients"),
        keys=now.keys,
        memory_bytes=_whole(now, "used_memory"),
        max_memory_bytes=_whole(now, "maxmemory"),
        resident_bytes=_whole(now, "used_memory_rss"),
        evicted_per_s=_rate(past, now, "evicted_keys"),
        expired_per_s=_rate(past, now, "expired_keys"),
        hit_share=_hit_share(past, now),
        fold_backlog_changes=_whole(now, "holdfast_unfolded_ops"),
        fold_backlog_bytes=_whole(now, "holdfast_unfolded_bytes"),
        fold_backlog_age_s=_scaled(now.number("holdfast_unfolded_age_ms"), 0.001),
        wal_bytes=_whole(now, "holdfast_wal_bytes"),
        file_bytes=_whole(now, "holdfast_file_bytes"),
        syncs_per_s=_rate(past, now, "holdfast_syncs"),
        replication_lag_s=max((p.lag_s for p in peers if p.lag_s is not None), default=None),
        peers=peers,
        commands=commands,
        slow=tuple(_slow(now, at)),
        errors=tuple(_errors(past, now)),
        queues=tuple(
            QueueView(shown(each.queue.name), each.queue.type, each.length, each.per_s)
            for each in growing
        ),
        scanned_share=scanned_share,
        missing=tuple(missing),
    )


def shown(name: bytes) -> str:
    """A name as text for a terminal. Bytes that are no text, control characters and backslashes are
    escaped, so different names stay different."""
    text = name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


# -- what the server says about itself ------------------------------------------------------------


def _server(facts: Mapping[str, str]) -> str | None:
    for name in ("holdfast", "valkey", "redis"):
        version = facts.get(f"{name}_version")
        if version is not None:
            return f"{name} {version}"
    return None


def _notices(now: Sample, restarted: bool) -> Iterable[str]:
    facts = now.facts
    if restarted:
        yield "the server has restarted: rates begin anew"
    if facts.get("aof_last_write_status", "ok") != "ok":
        why = facts.get("holdfast_last_error")
        yield f"writes are refused: {why}" if why else "the last write to the disk failed"
    if facts.get("loading", "0") != "0":
        yield "the server is loading its data"
    state = facts.get("active_active_state", "member")
    if state != "member":
        yield f"active-active: {state}"


def _peers(now: Sample) -> Iterable[PeerView]:
    for name, text in now.facts.items():
        fields = read_fields(text)
        if name.startswith("peer") and name[4:].isdigit():
            node, address = fields.get("node", "0"), fields.get("address", "?")
            yield PeerView(
                name=address if node == "0" else f"{address} (node {node})",
                state=fields.get("state", "?"),
                lag_s=_number(fields.get("lag_s")),
                lag_events=int(_number(fields.get("lag_ops")) or 0),
                error=fields.get("last_error", ""),
            )
        elif name.startswith("slave") and name[5:].isdigit():
            address = f"{fields.get('ip', '?')}:{fields.get('port', '?')} (replica)"
            lag_s = _number(fields.get("lag"))
            yield PeerView(address, fields.get("state", "?"), lag_s, None, "")
    if now.facts.get("role") == "slave":
        host, port = now.facts.get("master_host", "?"), now.facts.get("master_port", "?")
        lag_s = now.number("master_last_io_seconds_ago")
        yield PeerView(
            name=f"{host}:{port} (master)",
            state=now.facts.get("master_link_status", "?"),
            lag_s=None if lag_s is None or lag_s < 0 else lag_s,
            lag_events=None,
            error="",
        )


def _slow(now: Sample, at: float) -> Iterable[SlowView]:
    server_us = now.number("server_time_usec")
    server_s = at if server_us is None else server_us / 1e6
    for each in now.slow or ():
        command = " ".join(map(shown, each.words))
        yield SlowView(max(0.0, server_s - each.at_s), each.took_us, command)


# -- what happened between two samples ------------------------------------------------------------


def _rate(before: Sample | None, now: Sample, name: str) -> float | None:
    """The growth of a counter in a second. None if the counter went back: CONFIG RESETSTAT."""
    old, new = None if before is None else before.number(name), now.number(name)
    if before is None or old is None or new is None or new < old or now.at_s <= before.at_s:
        return None
    return (new - old) / (now.at_s - before.at_s)


def _rate_without(
    before: Sample | None,
    now: Sample,
    name: str,
    own: Callable[[Sample], Mapping[str, int]],
) -> float | None:
    """A rate without the part of the observer itself, which `own` takes from a sample."""
    per_s = _rate(before, now, name)
    if before is None or per_s is None:
        return None
    ours = sum(own(now).values()) - sum(own(before).values())
    return max(0.0, per_s - ours / (now.at_s - before.at_s))


def _hit_share(before: Sample | None, now: Sample) -> float | None:
    hits, misses = _rate(before, now, "keyspace_hits"), _rate(before, now, "keyspace_misses")
    if hits is None or misses is None or hits + misses == 0:
        return None
    return hits / (hits + misses)


def _errors(before: Sample | None, now: Sample) -> Iterable[ErrorView]:
    """Error replies by code, those that come now first."""
    seconds = 0.0 if before is None else now.at_s - before.at_s
    found = []
    for name in now.facts:
        if name.startswith("errorstat_"):
            total = _error_count(now, name)
            new = 0 if before is None else total - _error_count(before, name)
            per_s = new / seconds if seconds > 0 and new > 0 else 0.0
            found.append(ErrorView(name.removeprefix("errorstat_"), total, per_s))
    return sorted(found, key=lambda each: (-each.per_s, -each.count, each.code))


def _error_count(sample: Sample, name: str) -> int:
    return int(_number(read_fields(sample.facts.get(name, "")).get("count")) or 0)


def _commands(before: Sample | None, now: Sample) -> Iterable[CommandView]:
    """Commands that were called, those that take most of the time first. A command that nothing but
    the observer called is left out."""
    if before is None or now.at_s <= before.at_s:
        return []
    seconds = now.at_s - before.at_s
    found = []
    for name, new in now.calls.items():
        old = before.calls.get(name, Calls())
        calls = new.calls - old.calls
        own = now.own_calls.get(name, 0) - before.own_calls.get(name, 0)
        own_failed = now.own_failures.get(name, 0) - before.own_failures.get(name, 0)
        failed = new.failed - old.failed - own_failed
        if calls < 0 or failed < 0 or (calls <= own and not failed):
            continue
        buckets = _new_calls(before, now, [name])
        took_us = max(0, new.total_us - old.total_us)
        found.append(
            CommandView(
                name=name,
                calls_per_s=max(0, calls - own) / seconds,
                time_share=took_us / 1e6 / seconds,
                mean_us=took_us / calls if calls else 0.0,
                p50_us=percentile_us(buckets, 0.5),
                p99_us=percentile_us(buckets, 0.99),
                failed_per_s=failed / seconds,
            )
        )
    return sorted(found, key=lambda each: (-each.time_share, each.name))


def _percentiles(
    before: Sample | None, now: Sample, names: Iterable[str]
) -> tuple[float | None, float | None]:
    buckets = {} if before is None else _new_calls(before, now, names)
    return percentile_us(buckets, 0.5), percentile_us(buckets, 0.99)


def _new_calls(before: Sample, now: Sample, names: Iterable[str]) -> Buckets:
    """The calls of these commands since `before`, by their duration."""
    counts: Counter[int] = Counter()
    for name in names:
        new = Counter((now.buckets or {}).get(name, {}))
        new.subtract((before.buckets or {}).get(name, {}))
        counts += new  # without counts below 0: the histogram was reset
    return counts


def percentile_us(buckets: Buckets, share: float) -> float | None:
    """An estimate: calls count as spread evenly over their bucket, which begins at half its end."""
    rank = share * sum(buckets.values())
    for most_us, count in sorted(buckets.items()):
        if count and rank <= count:
            return most_us * (0.5 + 0.5 * rank / count)
        rank -= count
    return None


# -- numbers that may be missing ------------------------------------------------------------------


def _whole(sample: Sample, name: str) -> int | None:
    number = sample.number(name)
    return None if number is None else int(number)


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _scaled(number: float | None, by: float) -> float | None:
    return None if number is None else number * by


def _total(*numbers: float | None) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
