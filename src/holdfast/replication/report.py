"""What INFO replication tells of the links and of who is on them."""

from collections.abc import Iterator

from holdfast.replication.replicator import Replicator


def facts(replicator: Replicator) -> Iterator[tuple[str, object]]:
    replication = replicator.replication
    yield "active_active_node", replication.node
    yield "active_active_replica", replication.replica
    yield "active_active_state", replicator.shown_state
    yield "active_active_epoch", replication.members.epoch
    yield "active_active_members", len(replication.members.present)
    yield "active_active_unlinked_members", len(replicator.unlinked)
    yield "active_active_log_records", len(replication.log)
    yield "active_active_log_bytes", replication.log.total_bytes
    yield "active_active_log_memory_bytes", replication.log.bytes_in_memory
    yield "active_active_log_used_percent", replicator.log_used_percent
    yield "active_active_lapsed_members", len(replication.members.lapsed)
    yield "active_active_unconfirmed_removals", replication.unconfirmed_removals
    yield "active_active_drifting_clocks", len(replicator.drift.ms)
    for number, puller in enumerate(replicator.pullers):
        feed = replicator.followers.by_node(puller.node)
        lag_s = puller.lag_s
        fields: dict[str, object] = {
            "node": puller.node or 0,
            "address": puller.where,
            "state": puller.state.value,
            "lag_ops": puller.lag_ops,
            "lag_s": "" if lag_s is None else f"{lag_s:.3f}",
            "received_bytes": puller.received_bytes,
            "sent_bytes": 0 if feed is None else feed.total_bytes,
            "unsent_records": "" if feed is None else feed.lag_ops,
            "clock_drift_ms": replicator.drift.ms.get(puller.node or 0, 0),
            "last_error": puller.last_error.replace(",", ";"),
        }
        yield f"peer{number}", ",".join(f"{name}={value}" for name, value in fields.items())
