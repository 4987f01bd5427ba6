"""Functions inside the server: effects that clients do not see."""

from pathlib import Path

from holdfast.store.store import FileStore
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


def test_libraries_need_room_that_can_not_be_made_by_forgetting(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "x.db")
    world = InProcess({"appendfsync": "no"}, store)
    peer = world.peer()
    peer.command("SET", "large", b"x" * 100_000)
    assert peer.command("FUNCTION", "LOAD", LIBRARY.format("a", "f")) == b"$1\r\na\r\n"
    payload = peer.command("FUNCTION", "DUMP").split(b"\r\n", 1)[1][:-2]
    world.set("maxmemory", 50_000)  # the value can be forgotten
    assert peer.command("FUNCTION", "LOAD", LIBRARY.format("b", "g")) == b"$1\r\nb\r\n"
    world.set("maxmemory", 1)
    for args in (("LOAD", "REPLACE", LIBRARY.format("a", "f")), ("RESTORE", payload, "FLUSH")):
        reply = peer.command("FUNCTION", *args)
        assert reply == b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
    assert peer.command("SET", "k", "v") == b"+OK\r\n"
    assert peer.command("EVAL", "return redis.call('SET', 'k', 'w')", 0) == b"+OK\r\n"
    assert peer.command("EVAL", "#!lua flags=allow-oom\nreturn 1", 0) == b":1\r\n"
    for name, script in (("FCALL", "f"), ("EVAL", "#!lua\nreturn 1")):
        assert peer.command(name, script, 0).startswith(b"-OOM ")
    world.set("maxmemory", 0)
    assert peer.command("FCALL", "f", 0) == b":1\r\n"
    store.close()
