"""FUNCTION. FCALL is in scripting_commands.py, the libraries are in server/scripts/libraries.py."""

from functools import partial

from holdfast.commands.args import Options
from holdfast.commands.table import command, container, help_reply
from holdfast.errors import OUT_OF_MEMORY, CommandError
from holdfast.glob import compile_glob
from holdfast.resp import OK, Reply, SetReply, Simple
from holdfast.resp.c_strings import c_string
from holdfast.scripting.conversions import as_status
from holdfast.server.core.engine import engine_of
from holdfast.server.scripts.libraries import Function, Library
from holdfast.server.sessions.session import Session

BAD_POLICY = CommandError(
    "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
)
NO_PATTERN = CommandError("ERR library name argument was not given")
BAD_FLUSH = CommandError("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")

# In the order in which FUNCTION LIST shows them.
FLAGS = (b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys")

ALL_SHARDS = ("request_policy:all_shards", "response_policy:all_succeeded")

function = partial(command, group="scripting", since="7.0.0", categories="scripting")

container("function", -2, "", "Manage libraries of functions.", group="scripting", since="7.0.0")


def _check_room(session: Session) -> None:
    """Raise CommandError if libraries and clients already take too much memory: unlike values of a
    file, they cannot be dropped from memory. (If no value can be dropped, `Admission` has refused
    the command.)"""
    if engine_of(session).condition.lacks_room:
        raise OUT_OF_MEMORY


def _wrong_arguments(argv: list[bytes]) -> CommandError:
    return CommandError(
        b"ERR unknown subcommand or wrong number of arguments for '%s'. Try FUNCTION HELP."
        % argv[1][:128]
    )


@function("function|load", -3, "write denyoom noscript", tips=ALL_SHARDS)
def load(session: Session, argv: list[bytes]) -> Reply:
    """Load a library of functions and keep it, also across restarts; return its name.

    FUNCTION LOAD [REPLACE] function-code

    The first line of the code is `#!lua name=…`. The code registers functions with
    `redis.register_function`.
    """
    for option in argv[2:-1]:
        if option.upper() != b"REPLACE":
            raise CommandError(b"ERR Unknown option given: " + c_string(option))
    _check_room(session)
    return engine_of(session).scripts.functions.load(argv[-1], replace=len(argv) > 3)


@function("function|delete", 3, "write noscript", tips=ALL_SHARDS)
def delete(session: Session, argv: list[bytes]) -> Reply:
    """Remove a library and its functions.

    FUNCTION DELETE library-name
    """
    engine_of(session).scripts.functions.delete(argv[2])
    return OK


@function("function|flush", -2, "write noscript", tips=ALL_SHARDS)
def flush(session: Session, argv: list[bytes]) -> Reply:
    """Remove all libraries.

    FUNCTION FLUSH [ASYNC | SYNC]
    """
    if len(argv) > 3:
        raise _wrong_arguments(argv)
    if len(argv) == 3 and argv[2].upper() not in (b"ASYNC", b"SYNC"):
        raise BAD_FLUSH
    engine_of(session).scripts.functions.flush()
    return OK


@function("function|list", -2, "noscript", tips=("nondeterministic_output_order",))
def list_(session: Session, argv: list[bytes]) -> Reply:
    """The libraries and their functions.

    FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]
    """
    pattern: bytes | None = None
    with_code = False
    options = Options(argv, 2)
    while options:
        word = options.value()
        if word.upper() == b"WITHCODE" and not with_code:
            with_code = True
        elif word.upper() == b"LIBRARYNAME" and pattern is None:
            if not options:
                raise NO_PATTERN
            pattern = options.value()
        else:
            # Redis does not replace line ends in this error.
            raise CommandError(b"ERR Unknown argument " + as_status(word))
    is_wanted = compile_glob(b"*" if pattern is None else pattern, nocase=True)
    libraries = engine_of(session).scripts.functions.libraries.values()
    return [_described(library, with_code) for library in libraries if is_wanted(library.name)]


def _described(library: Library, with_code: bool) -> Reply:
    facts: dict[bytes, Reply] = {
        b"library_name": library.name,
        b"engine": b"LUA",
        b"functions": [_shown(function) for function in library.functions],
    }
    if with_code:
        facts[b"library_code"] = library.code
    return facts


def _shown(function: Function) -> Reply:
    flags = function.script.flags or ()
    return {
        b"name": function.script.name,
        b"description": function.description,
        b"flags": SetReply([Simple(flag) for flag in FLAGS if flag in flags]),
    }


@function(
    "function|stats",
    2,
    "noscript allow_busy",
    tips=("nondeterministic_output", "request_policy:all_shards", "response_policy:special"),
)
def stats(session: Session, argv: list[bytes]) -> Reply:
    """The running function, and the numbers of libraries and functions.

    FUNCTION STATS
    """
    scripts = engine_of(session).scripts
    running = scripts.running
    if running is not None and not running.script.is_function:
        raise scripts.busy_error
    facts: Reply = None
    if running is not None:
        facts = {
            b"name": running.script.name,
            b"command": tuple(running.argv),
            b"duration_ms": int(running.elapsed_ms),
        }
    libraries = scripts.functions.libraries
    counts: Reply = {
        b"libraries_count": len(libraries),
        b"functions_count": scripts.functions.count,
    }
    return {b"running_script": facts, b"engines": {b"LUA": counts}}


@function("function|dump", 2, "noscript")
def dump(session: Session, argv: list[bytes]) -> Reply:
    """All libraries as bytes that FUNCTION RESTORE takes, here or in a redis-server.

    FUNCTION DUMP
    """
    return engine_of(session).scripts.functions.dump()


@function("function|restore", -3, "write denyoom noscript", tips=ALL_SHARDS)
def restore(session: Session, argv: list[bytes]) -> Reply:
    """Load the libraries that FUNCTION DUMP gave, here or in a redis-server: all or none.

    FUNCTION RESTORE serialized-value [FLUSH | APPEND | REPLACE]
    """
    if len(argv) > 4:
        raise _wrong_arguments(argv)
    policy = argv[3].upper() if len(argv) == 4 else b"APPEND"
    if policy not in (b"FLUSH", b"APPEND", b"REPLACE"):
        raise BAD_POLICY
    _check_room(session)
    engine_of(session).scripts.functions.restore(argv[2], policy)
    return OK


@function(
    "function|kill",
    2,
    "noscript allow_busy",
    tips=("request_policy:all_shards", "response_policy:one_succeeded"),
)
def kill(session: Session, argv: list[bytes]) -> Reply:
    """End the running function. Its changes are undone.

    FUNCTION KILL
    """
    engine_of(session).scripts.kill(is_function=True)
    return OK


@command(
    "function|help", 2, "loading stale", group="scripting", since="7.0.0", categories="scripting"
)
def help_(session: Session, argv: list[bytes]) -> Reply:
    """Show the subcommands of FUNCTION.

    FUNCTION HELP
    """
    return help_reply(
        "FUNCTION",
        """
        DELETE <library name>
            Remove a library and its functions.
        DUMP
            All libraries as bytes that RESTORE takes, here or in a redis-server.
        FLUSH [ASYNC|SYNC]
            Remove all libraries.
        KILL
            End the running function, and undo its changes.
        LIST [LIBRARYNAME <pattern>] [WITHCODE]
            The libraries and their functions.
        LOAD [REPLACE] <code>
            Load a library, which registers functions.
        RESTORE <payload> [FLUSH|APPEND|REPLACE]
            Load the libraries of a DUMP. FLUSH removes all present libraries before, REPLACE
            those of the same names, APPEND (the default) none.
        STATS
            The running function, and the numbers of libraries and functions.
        """,
    )
