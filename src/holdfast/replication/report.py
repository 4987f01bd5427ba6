"""The fields of INFO replication about this server, its members and its links."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.server.features.peers import LinkFacts

if TYPE_CHECKING:
    from holdfast.replication.replicator import Replicator


def facts(replicator: "Replicator") -> Iterator[tuple[str, object]]:
    stage = replicator.stage
    yield "active_active_node", stage.node
    yield "active_active_replica", stage.replica
    yield "active_active_state", replicator.shown_state
    yield "active_active_epoch", stage.members.epoch
    yield "active_active_members", len(stage.members.present)
    yield "active_active_unlinked_members", len(replicator.unlinked)
    yield "active_active_log_records", len(stage.log)
    yield "active_active_log_bytes", stage.log.total_bytes
    yield "active_active_log_memory_bytes", stage.log.bytes_in_memory
    yield "active_active_log_used_percent", replicator.log_used_percent
    yield "active_active_lapsed_members", len(stage.members.lapsed)
    yield "active_active_unconfirmed_removals", stage.unconfirmed_removals
    conflicts = stage.conflicts.items()
    yield "active_active_conflicts", ",".join(f"{rule}={count}" for rule, count in conflicts)
    yield "active_active_drifting_clocks", len(replicator.drift.ms)
    for number, link in enumerate(links(replicator)):
        lag_s = link.lag_s
        fields: dict[str, object] = link._asdict() | {
            "lag_s": "" if lag_s is None else f"{lag_s:.3f}",
            "unsent_records": "" if link.unsent_records is None else link.unsent_records,
            "last_error": link.last_error.replace(",", ";"),
        }
        yield f"peer{number}", ",".join(f"{name}={value}" for name, value in fields.items())


def links(replicator: "Replicator") -> Iterator[LinkFacts]:
    for puller in replicator.pullers:
        feed = replicator.followers.by_node(puller.node)
        yield LinkFacts(
            node=puller.node or 0,
            address=puller.where,
            state=puller.state.value,
            lag_ops=puller.lag_ops,
            lag_s=puller.lag_s,
            received_bytes=puller.received_bytes,
            sent_bytes=0 if feed is None else feed.total_bytes,
            unsent_records=None if feed is None else feed.lag_ops,
            clock_drift_ms=replicator.drift.ms.get(puller.node or 0, 0),
            last_error=puller.history.last_error,
        )
