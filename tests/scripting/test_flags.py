"""The flags that scripts and functions declare decide where writes are held up."""

import pytest

from tests.harness.in_process import InProcess

LIBRARY = """#!lua name=lib
    redis.register_function{function_name='ro', callback=function() return 1 end,
                            flags={'no-writes'}}
    redis.register_function('rw', function() return 1 end)
"""
NO_WRITES = "#!lua flags=no-writes\nreturn 1"


@pytest.mark.parametrize(
    ("command", "is_held"),
    [
        (("EVAL", "return 1", 0), True),
        (("EVAL", "#!lua\nreturn 1", 0), True),
        (("EVAL", NO_WRITES, 0), False),
        (("EVAL_RO", "return 1", 0), False),
        (("EVAL_RO", NO_WRITES, 0), False),
        (("EVALSHA", "a" * 40, 0), True),
        (("EVALSHA_RO", "a" * 40, 0), False),
        (("FCALL", "rw", 0), True),
        (("FCALL", "ro", 0), False),
        (("FCALL", "none", 0), True),
        (("FCALL_RO", "ro", 0), False),
        (("FUNCTION", "FLUSH"), True),
        (("FUNCTION", "LIST"), False),
    ],
)
def test_a_pause_of_writes_holds_commands_that_may_write(
    command: tuple[str | int, ...], is_held: bool
) -> None:
    server = InProcess()
    server.peer().command("FUNCTION", "LOAD", LIBRARY)
    server.peer().command("CLIENT", "PAUSE", 1000, "WRITE")
    peer = server.peer()
    peer.send(*command)
    assert peer.session.parked is is_held
    assert bool(peer.replies()) is not is_held
