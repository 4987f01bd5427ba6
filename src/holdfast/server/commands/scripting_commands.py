"""EVAL, EVALSHA, FCALL and SCRIPT. How scripts run is in server/scripts/scripts.py."""

from functools import partial
from typing import Final

from holdfast.commands.args import parse_int
from holdfast.commands.table import Keys, command, container, help_reply
from holdfast.errors import NOT_AN_INTEGER, CommandError
from holdfast.resp import OK, Reply
from holdfast.server.core.engine import engine_of
from holdfast.server.scripts.script_cache import NO_SCRIPT
from holdfast.server.sessions.session import Session

NEGATIVE_KEYS = CommandError("ERR Number of keys can't be negative")
BAD_NUMBER_OF_KEYS = CommandError("ERR Bad number of keys provided")
TOO_MANY_KEYS = CommandError("ERR Number of keys can't be greater than number of args")

RUNS_READ_ONLY = "noscript stale skip_monitor no_mandatory_keys readonly"
RUNS = "noscript stale skip_monitor no_mandatory_keys may_replicate"
ALL_NODES = ("request_policy:all_nodes", "response_policy:all_succeeded")

scripting = partial(command, group="scripting", categories="scripting")

container("script", -2, "", "Manage the scripts that are loaded.", group="scripting", since="2.6.0")


def _keys(access: str, notes: str = "") -> Keys:
    worst = "RW and UPDATE" if access.startswith("RW") else "RO and ACCESS"
    text = f"We cannot tell how the keys will be used so we assume the worst, {worst}"
    return Keys(access, 3, count_at=2, notes=text if notes else "")


# The numbers of keys that most calls have: this table is quicker than parsing the number.
FEW: Final = {b"%d" % count: count for count in range(10)}


def _key_count(argv: list[bytes], not_a_number: CommandError = NOT_AN_INTEGER) -> int:
    count = FEW.get(argv[2])
    if count is None:
        count = parse_int(argv[2], not_a_number)
    if count > len(argv) - 3:
        raise TOO_MANY_KEYS
    if count < 0:
        raise NEGATIVE_KEYS
    return count


@scripting("eval", -3, RUNS, _keys("RW access update", "notes"), since="2.6.0")
def eval_(session: Session, argv: list[bytes]) -> Reply:
    """Run a script. If it fails, its changes are undone.

    EVAL script numkeys [key [key ...]] [arg [arg ...]]
    """
    return _evaluate(session, argv, False)


@scripting("eval_ro", -3, RUNS_READ_ONLY, _keys("RO access", "notes"), since="7.0.0")
def eval_ro(session: Session, argv: list[bytes]) -> Reply:
    """Run a script that may not write.

    EVAL_RO script numkeys [key [key ...]] [arg [arg ...]]
    """
    return _evaluate(session, argv, True)


def _show(session: Session, argv: list[bytes]) -> None:
    """Show the script to monitors before the commands that it calls."""
    engine = engine_of(session)
    if engine.monitoring:
        engine.monitors.show(session, argv)


def _load_keys(session: Session, argv: list[bytes]) -> None:
    """Let the script wait for large keys before it has any effect. Keys that are not declared are
    not known here; they are loaded at once when the script needs them."""
    loading = engine_of(session).loading
    if loading.has_all(session.db):
        return
    count = FEW.get(argv[2])
    if count is None:
        count = int(argv[2]) if argv[2].isdigit() and len(argv[2]) < 9 else 0
    loading.require(session.db, argv[3 : 3 + count])


def _evaluate(session: Session, argv: list[bytes], read_only: bool) -> Reply:
    _load_keys(session, argv)
    _show(session, argv)
    count = _key_count(argv)
    scripts = engine_of(session).scripts
    return scripts.run(session, scripts.cache.evaluated(argv[1]), argv, count, read_only)


@scripting("evalsha", -3, RUNS, _keys("RW access update"), since="2.6.0")
def evalsha(session: Session, argv: list[bytes]) -> Reply:
    """Run a script that is known, by the SHA1 of its text.

    EVALSHA sha1 numkeys [key [key ...]] [arg [arg ...]]
    """
    return _evaluate_known(session, argv, False)


@scripting("evalsha_ro", -3, RUNS_READ_ONLY, _keys("RO access"), since="7.0.0")
def evalsha_ro(session: Session, argv: list[bytes]) -> Reply:
    """Run a script that is known, by the SHA1 of its text; it may not write.

    EVALSHA_RO sha1 numkeys [key [key ...]] [arg [arg ...]]
    """
    return _evaluate_known(session, argv, True)


def _evaluate_known(session: Session, argv: list[bytes], read_only: bool) -> Reply:
    _load_keys(session, argv)
    _show(session, argv)
    if len(argv[1]) != 40:
        raise NO_SCRIPT
    count = _key_count(argv)
    scripts = engine_of(session).scripts
    return scripts.run(session, scripts.cache.known(argv[1]), argv, count, read_only)


@scripting("fcall", -3, RUNS, _keys("RW access update", "notes"), since="7.0.0")
def fcall(session: Session, argv: list[bytes]) -> Reply:
    """Run a function of a library. If it fails, its changes are undone.

    FCALL function numkeys [key [key ...]] [arg [arg ...]]
    """
    return _call_function(session, argv, False)


@scripting("fcall_ro", -3, RUNS_READ_ONLY, _keys("RO access", "notes"), since="7.0.0")
def fcall_ro(session: Session, argv: list[bytes]) -> Reply:
    """Run a function of a library that has the flag no-writes.

    FCALL_RO function numkeys [key [key ...]] [arg [arg ...]]
    """
    return _call_function(session, argv, True)


def _call_function(session: Session, argv: list[bytes], read_only: bool) -> Reply:
    _load_keys(session, argv)
    _show(session, argv)
    scripts = engine_of(session).scripts
    function = scripts.functions.find(argv[1])
    count = _key_count(argv, BAD_NUMBER_OF_KEYS)
    return scripts.run(session, function, argv, count, read_only)


# -- SCRIPT ---------------------------------------------------------------------------------------


@scripting("script|load", 3, "noscript stale", since="2.6.0", tips=ALL_NODES)
def load(session: Session, argv: list[bytes]) -> Reply:
    """Keep a script, also across restarts; return its SHA1.

    SCRIPT LOAD script
    """
    return engine_of(session).scripts.cache.load(argv[2])


@scripting(
    "script|exists",
    -3,
    "noscript",
    since="2.6.0",
    tips=("request_policy:all_shards", "response_policy:agg_logical_and"),
)
def exists(session: Session, argv: list[bytes]) -> Reply:
    """Whether scripts are known.

    SCRIPT EXISTS sha1 [sha1 ...]
    """
    return [int(sha in engine_of(session).scripts.cache) for sha in argv[2:]]


@scripting("script|show", 3, "noscript stale valkey", since="8.0.0")
def show(session: Session, argv: list[bytes]) -> Reply:
    """The text of a script.

    SCRIPT SHOW sha1
    """
    text = engine_of(session).scripts.cache.text_of(argv[2])
    if text is None:
        raise CommandError("NOSCRIPT No matching script.")
    return text


@scripting("script|flush", -2, "noscript", since="2.6.0", tips=ALL_NODES)
def flush(session: Session, argv: list[bytes]) -> Reply:
    """Forget all scripts.

    SCRIPT FLUSH [ASYNC | SYNC]
    """
    if len(argv) > 3 or (len(argv) == 3 and argv[2].upper() not in (b"SYNC", b"ASYNC")):
        raise CommandError("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
    engine_of(session).scripts.cache.flush()
    return OK


@scripting(
    "script|kill",
    2,
    "noscript allow_busy",
    since="2.6.0",
    tips=("request_policy:all_shards", "response_policy:one_succeeded"),
)
def kill(session: Session, argv: list[bytes]) -> Reply:
    """End the running script. Its changes are undone.

    SCRIPT KILL
    """
    engine_of(session).scripts.kill(is_function=False)
    return OK


@scripting("script|debug", 3, "noscript", since="3.2.0")
def debug(session: Session, argv: list[bytes]) -> Reply:
    """There is no debugger: only NO is possible.

    SCRIPT DEBUG NO
    """
    mode = argv[2].upper()
    if mode == b"NO":
        return OK
    if mode in (b"YES", b"SYNC"):
        raise CommandError("ERR There is no debugger for scripts")
    raise CommandError("ERR Use SCRIPT DEBUG YES/SYNC/NO")


@scripting("script|help", 2, "loading stale", since="5.0.0")
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of SCRIPT.

    SCRIPT HELP
    """
    return help_reply(
        "SCRIPT",
        """
        DEBUG NO
            Accepted without effect: there is no debugger.
        EXISTS <sha1> [<sha1> ...]
            Whether each of the scripts is known.
        FLUSH [ASYNC|SYNC]
            Forget all scripts.
        KILL
            End the running script, and undo its changes.
        LOAD <script>
            Keep a script without running it.
        SHOW <sha1>
            The text of a script.
        """,
    )
