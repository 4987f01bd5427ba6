"""Functions inside the server: effects that clients do not see."""

from tests.harness.in_process import InProcess

LIBRARY = "#!lua name={}\nredis.register_function('{}', function() return 1 end)"


def test_the_time_a_library_has_to_load_is_no_limit_of_what_comes_after() -> None:
    """The hook also looks while a script is compiled, when nothing runs yet."""
    world = InProcess()
    peer = world.peer()
    functions = world.engine.scripts.functions
    for code in (LIBRARY.format("a", "f"), LIBRARY.format("a", "f"), "#!lua name=b\nnonsense("):
        peer.command("FUNCTION", "LOAD", code)
        assert functions._deadline_s is None
    payload = peer.command("FUNCTION", "DUMP").split(b"\r\n", 1)[1][:-2]
    assert peer.command("FUNCTION", "RESTORE", payload, "REPLACE") == b"+OK\r\n"
    assert functions._deadline_s is None
    assert world.engine.scripts.tick() is None
