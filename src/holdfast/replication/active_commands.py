"""ACTIVE: the links of an active-active server.

The table of commands has ACTIVE on each server, so the modules that do the work are imported when
they are needed.
"""

from typing import TYPE_CHECKING

from holdfast.commands.args import parse_int_between
from holdfast.commands.context import Result
from holdfast.commands.table import command, container, help_reply
from holdfast.errors import CommandError
from holdfast.resp import OK, Reply
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.session import Session

if TYPE_CHECKING:
    from holdfast.replication.replicator import Replicator

ADMIN = "admin noscript loading stale"
NOT_ACTIVE = CommandError("ERR this server is not active-active (see --active-active)")
BAD_NODE = CommandError("ERR a node id is a number from 1 to 255")
BAD_MESSAGE = CommandError("ERR this is not a message of a peer")

container(
    "active", -2, "", "Links to the other servers of the database.", group="server", since="7.0.0"
)


def _replicator(session: Session) -> "Replicator":
    peers = engine_of(session).peers
    if peers is None:
        raise NOT_ACTIVE
    from holdfast.replication.replicator import Replicator

    assert isinstance(peers, Replicator)
    return peers


def _node(argv: list[bytes]) -> int | None:
    if len(argv) > 3:
        raise CommandError(
            b"ERR wrong number of arguments for 'active|%s' command" % argv[1].lower()
        )
    return parse_int_between(argv[2], 1, 255, BAD_NODE) if len(argv) == 3 else None


@command("active|info", 2, ADMIN, group="server", since="7.0.0")
def info(session: Session, argv: list[bytes]) -> Reply:
    """The node id of this server, its peers, and the records that it has seen.

    ACTIVE INFO
    """
    replicator = _replicator(session)
    stage = replicator.stage
    return {
        b"cluster": replicator.cluster.encode(),
        b"node": stage.node,
        b"replica": stage.replica,
        b"vector": " ".join(f"{each}:{seq}" for each, seq in sorted(stage.vector.items())).encode(),
        b"state": replicator.shown_state.encode(),
        b"epoch": stage.members.epoch,
        b"members": " ".join(map(str, sorted(stage.members.present))).encode(),
        b"unlinked": " ".join(map(str, replicator.unlinked)).encode(),
        b"removed": " ".join(map(str, sorted(stage.members.removed))).encode(),
        b"log_records": len(stage.log),
        b"unconfirmed_removals": stage.unconfirmed_removals,
    }


@command("active|peers", 2, ADMIN, group="server", since="7.0.0")
def peers(session: Session, argv: list[bytes]) -> Reply:
    """The other servers, and the states of the links to them.

    ACTIVE PEERS
    """
    replicator = _replicator(session)
    replies: list[Reply] = []
    for puller in replicator.pullers:
        feed = replicator.followers.by_node(puller.node)
        replies.append(
            {
                b"node": puller.node or 0,
                b"address": puller.where.encode(),
                b"state": puller.state.value.encode(),
                b"lag_ops": puller.lag_ops,
                b"follows_us": int(feed is not None),
                b"error": puller.history.last_error.encode(),
            }
        )
    return replies


@command("active|join", 3, ADMIN, group="server", since="7.0.0")
def join(session: Session, argv: list[bytes]) -> Reply:
    """Follow one more server; that server has to join this one, too.

    ACTIVE JOIN url
    """
    _replicator(session).join(argv[2].decode("utf-8", "surrogateescape"))
    return OK


@command("active|forget", 3, ADMIN, group="server", since="7.0.0")
def forget(session: Session, argv: list[bytes]) -> Reply:
    """Remove a server for good: no server waits for it, and all refuse it. The others learn of it.
    With an address: do not dial it any more.

    ACTIVE FORGET <node | url>
    """
    replicator = _replicator(session)
    if b"://" in argv[2]:
        replicator.forget_address(argv[2].decode("utf-8", "surrogateescape"))
    else:
        node = _node(argv)
        assert node is not None
        replicator.forget(node)
    return OK


@command("active|pause", -2, ADMIN, group="server", since="7.0.0")
def pause(session: Session, argv: list[bytes]) -> Reply:
    """Cut the links to one server, or to all, until RESUME.

    ACTIVE PAUSE [node]
    """
    _replicator(session).pause(_node(argv))
    return OK


@command("active|resume", -2, ADMIN, group="server", since="7.0.0")
def resume(session: Session, argv: list[bytes]) -> Reply:
    """Resume links that PAUSE has cut.

    ACTIVE RESUME [node]
    """
    _replicator(session).resume(_node(argv))
    return OK


@command("active|digest", 2, ADMIN, group="server", since="7.0.0")
def digest(session: Session, argv: list[bytes]) -> Result:
    """A number for all data: servers that have seen the same events have the same number.

    ACTIVE DIGEST
    """
    from holdfast.replication.surveying import Surveying

    _replicator(session)
    return Surveying(session).block


@command("active|link", 3, ADMIN, group="server", since="7.0.0")
def link(session: Session, argv: list[bytes]) -> Reply:
    """Sent by another server that wants to follow this one.

    ACTIVE LINK hello
    """
    from holdfast.replication.messages import BadMessage, read_hello

    replicator = _replicator(session)
    if session.protocol != 3:
        raise CommandError("ERR a link needs RESP3")
    try:
        return replicator.link(session, read_hello(argv[2]))
    except BadMessage:
        raise BAD_MESSAGE from None


@command("active|ack", 3, ADMIN, group="server", since="7.0.0")
def ack(session: Session, argv: list[bytes]) -> Reply:
    """Sent by another server: the events that it has on disk.

    ACTIVE ACK ack
    """
    from holdfast.replication.messages import BadMessage, read_ack

    replicator = _replicator(session)
    try:
        return replicator.acknowledge(session, read_ack(argv[2]))
    except BadMessage:
        raise BAD_MESSAGE from None


@command("active|help", 2, "loading stale", group="server", since="7.0.0")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of ACTIVE.

    ACTIVE HELP
    """
    return help_reply(
        "ACTIVE",
        """
        INFO
            The node id of this server, its peers, and the records that it has seen.
        PEERS
            The other servers, and the states of the links to them.
        JOIN <url>
            Follow one more server.
        FORGET <node | url>
            Remove a server for good; or do not dial an address any more.
        PAUSE [<node>]
            Cut the links to one server, or to all.
        RESUME [<node>]
            Resume links that PAUSE has cut.
        DIGEST
            A number for all data: equal on servers that have seen the same.
        """,
    )
