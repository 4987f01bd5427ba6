"""The line about a session in CLIENT LIST, CLIENT INFO and the log of denied commands."""

from holdfast.resp import encode2
from holdfast.server.features.channels import PubSub
from holdfast.server.features.tracking import Tracker, Tracking
from holdfast.server.sessions.session import OWN_BYTES, SUBSCRIBED, Session


def describe(
    session: Session, pubsub: PubSub, tracking: Tracking, running: list[bytes] | None = None
) -> bytes:
    """The line of CLIENT LIST, without its end. `running` is the argv of the command that the
    session runs: Redis still has it in the input buffer and counts it.

    The line is one long f-string, because some clients ask all the time and for thousands of
    sessions: to join names and values would take twice as long.
    """
    tracker = tracking.get(session)
    now_s = session.host.clock.monotonic_s()
    input_bytes, output_bytes = session.input_bytes, session.output_bytes
    argv_bytes, multi_bytes = session.argv_bytes, session.multi_bytes
    total_bytes = OWN_BYTES + input_bytes + argv_bytes + multi_bytes + output_bytes
    total_bytes += session.fieldset_bytes
    running_bytes = len(encode2(tuple(running))) if running else 0
    sub = psub = ssub = 0
    if session.modes & SUBSCRIBED:
        sub = pubsub.channels.count_of(session)
        psub = pubsub.patterns.count_of(session)
        ssub = pubsub.shards.count_of(session)
    return (
        f"id={session.id} addr={session.address} laddr={session.local_address} fd={session.fd}"
        f" name={session.name.decode()} age={int(now_s - session.created_s)}"
        f" idle={int(now_s - session.last_active_s)} flags={flag_letters(session, tracker) or 'N'}"
        f" db={session.db.index} sub={sub} psub={psub} ssub={ssub}"
        f" multi={-1 if session.multi is None else len(session.multi)}"
        f" qbuf={input_bytes + running_bytes} qbuf-free=0"
        f" argv-mem={argv_bytes} multi-mem={multi_bytes} rbs=0 rbp=0"
        f" obl=0 oll={len(session.out)} omem={output_bytes}"
        f" tot-mem={total_bytes}"
        # `w` if the socket has bytes that it could not send yet
        f" events={'rw' if output_bytes and session.sink.output_bytes else 'r'}"
        f" cmd={session.last_command or 'NULL'} user={session.user.name.decode('utf-8', 'replace')}"
        f" redir={-1 if tracker is None else tracker.redirect} resp={session.protocol}"
        f" lib-name={session.lib_name.decode()} lib-ver={session.lib_ver.decode()}"
    ).encode()


def flag_letters(session: Session, tracker: Tracker | None) -> str:
    letters = ""
    if session.modes:
        letters += "O" if session.monitoring else ""
        letters += "P" if session.modes & SUBSCRIBED else ""
        letters += "x" if session.multi is not None else ""
    if session.is_waiting:
        letters += "b"
    if tracker is not None:
        letters += "t" + "R" * tracker.is_broken + "B" * tracker.bcast
    if session.watch_broken:
        letters += "d"
    if session.closing:
        letters += "c"
    if session.flags:
        letters += "".join(sorted(session.flags))
    return letters
