"""The line about a session in CLIENT LIST, CLIENT INFO and the log of denied commands."""

from holdfast.server.features.channels import PubSub
from holdfast.server.features.tracking import Tracker, Tracking
from holdfast.server.sessions.session import SUBSCRIBED, Session


def describe(session: Session, pubsub: PubSub, tracking: Tracking) -> bytes:
    """The line of CLIENT LIST, without its end."""
    output_bytes = session.output_bytes
    tracker = tracking.get(session)
    fields: dict[str, object] = {
        "id": session.id,
        "addr": session.address,
        "laddr": session.local_address,
        "fd": session.fd,
        "name": session.name.decode(),
        "age": session.age_s,
        "idle": session.idle_s,
        "flags": flag_letters(session, tracker) or "N",
        "db": session.db.index,
        "sub": pubsub.channels.count_of(session),
        "psub": pubsub.patterns.count_of(session),
        "ssub": pubsub.shards.count_of(session),
        "multi": -1 if session.multi is None else len(session.multi),
        "qbuf": session.input_bytes,
        "qbuf-free": 0,
        "argv-mem": session.argv_bytes,
        "multi-mem": session.multi_bytes,
        "rbs": 0,
        "rbp": 0,
        "obl": 0,
        "oll": len(session.out),
        "omem": output_bytes,
        "tot-mem": session.memory_bytes,
        # bytes that the socket did not take yet
        "events": "rw" if session.sink.output_bytes else "r",
        "cmd": session.last_command or "NULL",
        "user": session.user.name.decode("utf-8", "replace"),
        "redir": -1 if tracker is None else tracker.redirect,
        "resp": session.protocol,
        "lib-name": session.lib_name.decode(),
        "lib-ver": session.lib_ver.decode(),
    }
    return " ".join([f"{name}={value}" for name, value in fields.items()]).encode()


def flag_letters(session: Session, tracker: Tracker | None) -> str:
    states = {
        "O": session.monitoring,
        "P": session.modes & SUBSCRIBED,
        "x": session.multi is not None,
        "b": session.is_waiting,
        "t": tracker is not None,
        "R": tracker is not None and tracker.is_broken,
        "B": tracker is not None and tracker.bcast,
        "d": session.watch_broken,
        "c": session.closing,
    }
    return "".join([letter for letter, is_so in states.items() if is_so] + sorted(session.flags))
