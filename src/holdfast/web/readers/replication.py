"""Replication: of Redis (INFO replication, on any server), and links of active-active servers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.client import Client
from holdfast.figures.sample import read_fields, read_info
from holdfast.web.readers.asking import ask, number, pairs


@dataclass(frozen=True, slots=True)
class Follower:
    """A replica of Redis's replication, in the view of its primary."""

    address: str
    state: str
    offset: int | None
    lag_s: int | None  # since it last told its offset
    behind_bytes: int | None


@dataclass(frozen=True, slots=True)
class Primary:
    """The server that this one follows."""

    address: str
    link: str  # up or down
    seconds_since_heard: int | None
    offset: int | None
    is_syncing: bool = False


@dataclass(frozen=True, slots=True)
class Peer:
    """A link between active-active servers. None: unknown."""

    node: int
    address: str
    state: str
    lag_ops: int | None
    lag_s: float | None
    received_bytes: int | None
    sent_bytes: int | None
    unsent_records: int | None
    clock_drift_ms: int | None
    error: str

    @property
    def is_paused(self) -> bool:
        return self.state == "paused"


@dataclass(frozen=True, slots=True)
class ActiveActive:
    """This server among its peers. `unconfirmed_removals`: elements that are removed here, and
    whose removal some member has not confirmed; their residue stays until then. `conflicts`:
    changes of peers that were in conflict with others since the start, by the rule that decided."""

    node: int
    state: str
    epoch: int | None
    members: tuple[int, ...]
    unlinked: tuple[int, ...]
    removed: tuple[int, ...]
    log_records: int | None
    log_bytes: int | None
    log_used_percent: int | None
    unconfirmed_removals: int | None
    conflicts: Mapping[str, int] | None = None
    peers: tuple[Peer, ...] = ()


@dataclass(frozen=True, slots=True)
class ReplicationState:
    """`role`: master or slave, the words of the protocol."""

    role: str
    offset: int | None
    backlog_bytes: int | None
    primary: Primary | None = None
    followers: tuple[Follower, ...] = ()
    active: ActiveActive | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


async def read_replication(client: Client) -> ReplicationState | None:
    """None if the user may not ask for INFO."""
    info, about = await ask(client, [("INFO", "replication"), ("ACTIVE", "INFO")])
    if info is None:
        return None
    facts = read_info(info)
    return ReplicationState(
        role=facts.get("role", ""),
        offset=number(facts.get("master_repl_offset")),
        backlog_bytes=number(facts.get("repl_backlog_histlen")),
        primary=_primary(facts),
        followers=_followers(facts),
        active=_active(facts, about),
        facts=facts,
    )


async def digest(client: Client) -> str:
    """A number for all data of an active-active server. The server computes it from all keys,
    between requests of clients. Raises HoldfastError if the server refuses."""
    reply = await client.exec("ACTIVE", "DIGEST", into=bytes)
    return reply.decode()


async def pause(client: Client, node: int | None) -> None:
    """Cut the link to a peer, or to all. Writes go on; they are sent after `resume`."""
    await client.exec("ACTIVE", "PAUSE", *_of(node), into=None)


async def resume(client: Client, node: int | None) -> None:
    await client.exec("ACTIVE", "RESUME", *_of(node), into=None)


async def forget(client: Client, node: int) -> None:
    """Remove a server for good: all members refuse it from now on."""
    await client.exec("ACTIVE", "FORGET", str(node), into=None)


def _of(node: int | None) -> tuple[str, ...]:
    return () if node is None else (str(node),)


def _primary(facts: Mapping[str, str]) -> Primary | None:
    if "master_host" not in facts:
        return None
    return Primary(
        address=f"{facts['master_host']}:{facts.get('master_port', '')}",
        link=facts.get("master_link_status", ""),
        seconds_since_heard=number(facts.get("master_last_io_seconds_ago")),
        offset=number(facts.get("slave_repl_offset")),
        is_syncing=facts.get("master_sync_in_progress") == "1",
    )


def _followers(facts: Mapping[str, str]) -> tuple[Follower, ...]:
    ours = number(facts.get("master_repl_offset"))
    found = []
    for name, text in facts.items():
        if name.startswith("slave") and name[5:].isdigit():
            fields = read_fields(text)
            offset = number(fields.get("offset"))
            behind = None if ours is None or offset is None else max(0, ours - offset)
            found.append(
                Follower(
                    address=f"{fields.get('ip', '?')}:{fields.get('port', '?')}",
                    state=fields.get("state", ""),
                    offset=offset,
                    lag_s=number(fields.get("lag")),
                    behind_bytes=behind,
                )
            )
    return tuple(found)


def _active(facts: Mapping[str, str], about: object) -> ActiveActive | None:
    node = number(facts.get("active_active_node"))
    if node is None:
        return None
    told = {_text(name): _text(value) for name, value in pairs(about).items()}
    return ActiveActive(
        node=node,
        state=facts.get("active_active_state", ""),
        epoch=number(facts.get("active_active_epoch")),
        members=_nodes(told.get("members")),
        unlinked=_nodes(told.get("unlinked")),
        removed=_nodes(told.get("removed")),
        log_records=number(facts.get("active_active_log_records")),
        log_bytes=number(facts.get("active_active_log_bytes")),
        log_used_percent=number(facts.get("active_active_log_used_percent")),
        unconfirmed_removals=number(facts.get("active_active_unconfirmed_removals")),
        conflicts=_conflicts(facts),
        peers=tuple(
            _peer(read_fields(text))
            for name, text in facts.items()
            if name.startswith("peer") and name[4:].isdigit()
        ),
    )


def _conflicts(facts: Mapping[str, str]) -> dict[str, int] | None:
    text = facts.get("active_active_conflicts")
    if text is None:
        return None
    return {rule: number(count) or 0 for rule, count in read_fields(text).items()}


def _peer(fields: Mapping[str, str]) -> Peer:
    lag_s = fields.get("lag_s")
    return Peer(
        node=number(fields.get("node")) or 0,
        address=fields.get("address", ""),
        state=fields.get("state", ""),
        lag_ops=number(fields.get("lag_ops")),
        lag_s=float(lag_s) if lag_s else None,
        received_bytes=number(fields.get("received_bytes")),
        sent_bytes=number(fields.get("sent_bytes")),
        unsent_records=number(fields.get("unsent_records")),
        clock_drift_ms=number(fields.get("clock_drift_ms")),
        error=fields.get("last_error", ""),
    )


def _nodes(text: str | None) -> tuple[int, ...]:
    return tuple(int(word) for word in (text or "").split() if word.isdigit())


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
