"""The compiled gate beside lupa, which does the same without it. Scripts and hosts must see no
difference, for any values in or out."""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import CommandError
from holdfast.resp import (
    NULL_ARRAY,
    OK,
    BigNumber,
    HumanFloat,
    Pairs,
    Push,
    Reply,
    SetReply,
    Simple,
    Verbatim,
)
from holdfast.scripting import sandbox as sandboxes
from holdfast.scripting.calls import Callee
from holdfast.scripting.sandbox import NO_MEMORY, Sandbox
from holdfast.scripting.script import Failure, Killed
from holdfast.server.features.latency import FAST_NS, SHIFT

_gate = pytest.importorskip("holdfast.scripting._gate")


@dataclass
class Command:
    name: bytes
    call: Callable[[list[bytes]], Reply]
    quick: tuple[Any, ...] | None = None


@dataclass
class Handler:
    """The commands that the gate runs without asking the host, and their counters."""

    host: "Host"
    opens: int = 1
    least: int = 1
    most: int = 1 << 30
    tally: Any = field(default_factory=_gate.Tally)
    told: list[tuple[object, int]] = field(default_factory=list)
    verdict: BaseException | None = None
    is_slow = False

    @property
    def quick(self) -> tuple[Any, ...]:
        return self.run, self.ended, self.tally, self.least, self.most, self.opens

    def run(self, session: object, argv: list[bytes]) -> Reply:
        assert session is self.host
        if self.is_slow:
            start_ns = time.monotonic_ns()
            while time.monotonic_ns() - start_ns <= FAST_NS:
                pass
        return self.host.call(argv)

    def ended(self, error: object, elapsed_ns: int) -> None:
        self.told.append((error, elapsed_ns))
        if self.verdict is not None:
            raise self.verdict


class Host:
    reply: Any = OK
    reason: bytes | None = None
    protocol = 2
    quick: tuple[Any, ...] | None = None

    def __init__(self) -> None:
        self.asked: list[list[bytes]] = []
        self.passed = 0

    def callee(self, name: bytes) -> Callee | None:
        if name == b"unknown":
            raise CommandError("ERR there is no such command")
        return None if name == b"config" else Command(name, self._through_the_gate, self.quick)

    def _through_the_gate(self, argv: list[bytes]) -> Reply:
        self.passed += 1
        return self.call(argv)

    def call(self, argv: list[bytes]) -> Reply:
        self.asked.append(argv)
        if isinstance(self.reply, BaseException):
            raise self.reply
        answer: Reply = self.reply
        return answer

    def may_call(self, argv: list[bytes]) -> bool:
        return True

    def set_protocol(self, version: int) -> None:
        self.protocol = version

    def returned(self, errors: list[CommandError]) -> None: ...

    def tick(self) -> bytes | None:
        return self.reason


class World:
    """A host and its sandbox."""

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self.host = Host()
        self.sandbox = Sandbox(self.host, b"7.0.0", 0x070000, max_bytes)

    def prepared(self, script: str, *args: bytes, keys: int = 0) -> Callable[[], Reply | Failure]:
        """Compiled before the host may want to end it."""
        function = self.sandbox.compile(script.encode(), b"@user_script")
        argv = [b"EVAL", b"", b"%d" % keys, *args]
        return partial(self.sandbox.run, function, argv, keys, False, self.host, 1)

    def run(self, script: str, *args: bytes, keys: int = 0) -> Reply | Failure:
        return self.prepared(script, *args, keys=keys)()


@pytest.fixture(scope="module", params=["asking", "open"])
def gated(request: pytest.FixtureRequest) -> World:
    world = World()
    assert world.sandbox._gate is not None
    if request.param == "open":
        world.host.quick = Handler(world.host).quick
    return world


@pytest.fixture(scope="module")
def plain() -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandboxes, "GATE", None)
        world = World()
    assert world.sandbox._gate is None
    return world


def outcome(world: World, script: str, *args: bytes, keys: int = 0) -> tuple[Any, ...]:
    """The calls of the host, and the end of the script. It runs twice, because a command is new
    only once."""
    endings: list[Any] = []
    world.host.asked.clear()
    for _ in range(2):
        try:
            result: Any = world.run(script, *args, keys=keys)
        except Killed as killed:
            result = ("killed", killed.failure)
        except Exception as error:  # noqa: BLE001 - compared
            result = ("raised", error)
        endings.append((type(result), repr(result)))
    return world.host.asked, endings


plain_values = st.none() | st.integers(-(2**53), 2**53) | st.binary(max_size=40)
odd_values = (
    st.booleans()
    | st.floats(allow_nan=False)
    | st.sampled_from([OK, Simple(b"QUEUED"), NULL_ARRAY, Verbatim(b"text"), HumanFloat(0.1)])
    | st.integers(2**70, 2**71).map(lambda number: BigNumber(b"%d" % number))
)
replies = st.recursive(
    plain_values | odd_values,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(plain_values, max_size=300)
        | st.lists(st.binary(max_size=5), max_size=5).map(tuple)
        | st.dictionaries(st.binary(max_size=3), inner, max_size=3)
        | st.lists(inner, max_size=3).map(Push)
        | st.lists(st.binary(max_size=3), max_size=3, unique=True).map(SetReply)
        | st.lists(st.tuples(st.binary(max_size=3), inner).map(list), max_size=3).map(Pairs)
    ),
    max_leaves=20,
) | st.sampled_from(
    [
        CommandError("ERR no"),
        ValueError("a bug"),
        b"x" * (1 << 20),
        [b"x" * (1 << 19)] * 3,
        [[[[[[[[[[[1]]]]]]]]]]],
    ]
)

# A reply, all of it, as the script sees it.
DESCRIBE = """
local function describe(value)
  if type(value) ~= 'table' then return type(value) .. ':' .. tostring(value) end
  local parts = {}
  for key, item in pairs(value) do parts[#parts + 1] = describe(key) .. '=' .. describe(item) end
  table.sort(parts)
  return '{' .. table.concat(parts, ',') .. '}'
end
"""


@settings(max_examples=400, deadline=None)
@given(reply=replies, call=st.sampled_from(["call", "pcall"]), version=st.sampled_from([2, 3]))
def test_replies_are_the_same(
    gated: World, plain: World, reply: Any, call: str, version: int
) -> None:
    script = f"redis.setresp({version}) {DESCRIBE} return describe(redis.{call}('get', 'k'))"
    gated.host.reply = plain.host.reply = reply
    assert outcome(gated, script) == outcome(plain, script)


lua_values = (
    st.integers(-(2**60), 2**60).map(str)
    | st.floats().map(lambda number: f"tonumber('{number!r}')")
    | st.floats(1e8, 1e16).map(repr)  # as times have it
    | st.integers(2**30 * 2**20, 2**50).map(lambda number: repr(number / 2**20))  # ties
    | st.sampled_from(
        ["0", "-0", "0/0", "-(0/0)", "1/0", "-1/0", "1e15", "1e16", "-1e16", "1e17", "2^63", "0.1"]
    )
    | st.binary(max_size=20).map(lambda text: "'" + "".join(f"\\{byte:03d}" for byte in text) + "'")
    | st.sampled_from(["nil", "true", "{}", "print", "('x'):rep(100000)"])
)


@settings(max_examples=400, deadline=None)
@given(values=st.lists(lua_values, max_size=6), name=st.sampled_from(["get", "GeT", "config"]))
def test_arguments_are_the_same(gated: World, plain: World, values: list[str], name: str) -> None:
    gated.host.reply = plain.host.reply = OK
    for call in ("call", "pcall"):
        script = f"return redis.{call}({', '.join([repr(name), *values])})"
        assert outcome(gated, script) == outcome(plain, script)


@pytest.mark.parametrize(
    "script",
    [
        "return redis.call()",
        "return redis.call(nil)",
        "return redis.call(7)",
        "return redis.call({})",
        "return redis.call('unknown')",
        "return redis.pcall('unknown', 1)",
        "local all = {} for i = 1, 199 do all[i] = i end return redis.call('get', unpack(all))",
        "local all = {} for i = 1, 200 do all[i] = i end return redis.call('get', unpack(all))",
        "local all = {} for i = 1, 7000 do all[i] = i end return redis.call('get', unpack(all))",
        "return redis.call('get', unpack({1, nil, 3}, 1, 3))",
        "return redis.call('get', unpack({1, nil, 3}, 1, 300))",
        "return coroutine.wrap(function() return redis.call('get', 'k') end)()",
        "return table.concat({pcall(redis.call, 'get', 'k')}, '')",
        "return ('abc'):gsub('.', function(c) return redis.call('get', c) end)",
        "local t = redis.call('get', 'k') t.ok = 'other' return redis.call('get', 'k')",
        "return {redis.call('get', 'k'), redis.call('get', 'k') == redis.call('get', 'k')}",
        "local t = {} for i = 1, 400 do t[i] = {i, 'x', false} end return t",
        "return {1.5, -0, 2^53, 'x', {}, {err = 'no'}, {ok = 'yes'}, true, false}",
        "return 1/0",
        "return",
        "return error('no')",
        "return nil + 1",
        "return KEYS[1] .. #KEYS .. #ARGV",
    ],
)
@pytest.mark.parametrize("reply", [OK, b"text", 7, CommandError("ERR no")], ids=repr)
@pytest.mark.parametrize("argument_count", [2, 196, 197, 198, 1000])
def test_whatever_a_script_does_is_the_same(
    gated: World, plain: World, script: str, reply: Any, argument_count: int
) -> None:
    gated.host.reply = plain.host.reply = reply
    args = [b"%d" % i for i in range(argument_count)]
    assert outcome(gated, script, *args, keys=2) == outcome(plain, script, *args, keys=2)


def test_calls_do_pass_through_the_gate() -> None:
    world = World()
    world.host.reply = 7
    world.run("for i = 1, 10 do redis.call('get', 'k', i, 0.5) end")
    assert world.host.passed == 9  # the first was in search of a door


# -- commands that the gate runs by itself ----------------------------------------------------

NINE_GETS = (
    "redis.call('get', 'k')"  # in search of a door
    " local reply for i = 1, 9 do reply = redis.pcall('get', 'k') end return reply"
)


def open_world() -> tuple[World, Handler]:
    world = World()
    handler = Handler(world.host)
    return world, handler


def test_an_open_command_is_run_and_counted_by_the_gate() -> None:
    world, handler = open_world()
    world.host.quick, world.host.reply = handler.quick, 7
    assert world.run(NINE_GETS) == 7
    assert world.host.passed == 0
    assert len(world.host.asked) == 10
    slow = len(handler.told)
    assert all(error is None and ns >= FAST_NS for error, ns in handler.told)
    ns, slots = handler.tally.take()
    assert sum(count for _, count in slots) == 9 - slow
    assert sum(count * (slot << SHIFT) for slot, count in slots) <= ns
    assert ns < sum(count * (slot + 1 << SHIFT) for slot, count in slots)
    assert handler.tally.take() == (0, [])


@pytest.mark.parametrize(("opens", "least", "most"), [(2, 1, 9), (1, 3, 9), (1, 1, 1)])
def test_the_host_is_asked_about_everything_else(opens: int, least: int, most: int) -> None:
    world = World()
    world.host.quick, world.host.reply = Handler(world.host, opens, least, most).quick, 7
    assert world.run(NINE_GETS) == 7
    assert world.host.passed == 9


def test_the_host_can_close_the_doors_while_a_script_runs() -> None:
    world, handler = open_world()

    def close(argv: list[bytes]) -> Reply:
        world.host.asked.append(argv)
        if len(world.host.asked) == 5:
            world.sandbox.close_doors()
        return 7

    world.host.call = close  # type: ignore[method-assign]
    world.host.quick = handler.quick
    assert world.run(NINE_GETS) == 7
    assert world.host.passed == 5
    world.host.passed = 0
    assert world.run(NINE_GETS) == 7
    assert world.host.passed == 0  # for the next script they are open again


def test_errors_of_handlers_are_told() -> None:
    world, handler = open_world()
    world.host.quick, world.host.reply = handler.quick, CommandError("ERR no")
    result = world.run("redis.pcall('get') local r = redis.pcall('get', 'k') return r.err")
    assert result == b"ERR no"
    assert [error for error, _ in handler.told] == [world.host.reply]
    assert handler.tally.take() == (0, [])


@pytest.mark.parametrize("reply", [7, CommandError("ERR no")], ids=repr)
def test_a_handler_that_is_told_can_end_the_script(reply: Any) -> None:
    world, handler = open_world()
    world.host.quick, world.host.reply = handler.quick, reply
    handler.verdict, handler.is_slow = Killed(Failure(b"ERR enough", None, None)), True
    with pytest.raises(Killed):
        world.run("redis.pcall('get') redis.pcall('get', 'k')")
    assert len(handler.told) == 1
    assert handler.told[0][1] >= FAST_NS


def test_the_gate_counts_as_the_engine_does() -> None:
    assert (_gate.SHIFT, _gate.SLOTS << _gate.SHIFT) == (SHIFT, FAST_NS)


# -- ends -------------------------------------------------------------------------------------


def test_a_script_that_is_ended_leaves_the_gate_open(gated: World) -> None:
    host = gated.host
    run = gated.prepared("while true do redis.pcall('get', 'k') end")
    host.reply, host.reason = OK, b"enough"
    with pytest.raises(Killed):
        run()
    host.reason, host.reply = None, KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        gated.run("return redis.pcall('get', 'k')")
    host.reply = 7
    assert gated.run("return redis.call('get', 'k')") == 7


def test_a_script_can_be_ended_at_any_moment(gated: World, plain: World) -> None:
    """Also behind its last line: the clock is looked at every 2,000 instructions."""
    for world in (gated, plain):
        runs = [
            world.prepared(f"for i = 1, {count} do end return {{7, {{7}}}}")
            for count in range(1850, 2000)
        ]
        world.host.reason = b"enough"
        reasons: set[bytes] = set()
        for run in runs * 200:
            try:
                assert run() == [7, [7]]
            except Killed as killed:
                reasons.add(killed.failure.message)
        assert reasons == {b"enough"}
        world.host.reason = None
        assert [run() for run in runs[:3]] == [[7, [7]]] * 3


# Functions that catch errors: the end of a script is not an error.
CATCHES = [
    "pcall(body)",
    "xpcall(body, function() end)",
    "xpcall(body, body)",
    "load(body)",
    "pcall(load, body)",
    "load(function() load(body) end)",
    "coroutine.wrap(function() load(body) end)()",
    "coroutine.resume(coroutine.create(body))",
    "pcall(coroutine.wrap(body))",
    "pcall(string.gsub, 'a', 'a', body)",
    "pcall(table.sort, {3, 2, 1}, body)",
    "pcall(function() return setmetatable({}, {__index = body}).x end)",
    "pcall(tostring, setmetatable({}, {__tostring = body}))",
    "pcall(error, setmetatable({}, {__tostring = body}))",
    "pcall(load, setmetatable({}, {__call = body}))",
    "load(coroutine.wrap(body))",
    "loadstring(('do end '):rep(1e4))",
]


@pytest.mark.parametrize("body", ["while true do end", "for i = 1, 1e4 do end", "return"])
@pytest.mark.parametrize("catch", CATCHES)
def test_nothing_that_catches_errors_survives_the_end(
    gated: World, plain: World, catch: str, body: str
) -> None:
    for world in (gated, plain):
        for patience in range(3):  # how often it is asked whether it must end
            loop = f"local function body() {body} end while true do {catch} end"
            run = world.prepared(loop)
            verdicts = iter([None] * patience)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(world.host, "tick", lambda: next(verdicts, b"enough"))  # noqa: B023
                with pytest.raises(Killed):
                    run()
            assert world.run("return 7") == 7
        run = world.prepared("while true do end")
        world.host.reason = b"enough"
        with pytest.raises(Killed):
            run()
        world.host.reason = None


def test_a_host_that_ends_everything_can_have_a_new_sandbox() -> None:
    host = Host()
    host.reason = b"enough"
    for _ in range(5):
        Sandbox(host, b"7.0.0", 0x070000, 64 << 20)


def test_compiling_can_be_ended_at_any_moment(gated: World, plain: World) -> None:
    for world in (gated, plain):
        run = world.prepared("for i = 1, 1e5 do end return 7")
        ends = 0
        for size in range(1500):
            assert run() == 7  # leaves the hook wherever it is
            world.host.reason = b"enough"
            try:
                world.sandbox.compile(b"do end " * size, b"@user_script")
            except Killed:
                ends += 1
            world.host.reason = None
        assert ends > 0
        assert run() == 7


LONG_CALLS = {
    "sort": ("local t = {} for i = 1, 2e5 do t[i] = i * 7919 % 200003 end", "table.sort(t)"),
    # (The pattern is parsed once before, which takes some time, too.)
    "find": (
        "local s, p = ('a'):rep(1e5), ('.'):rep(8000) .. 'b' s:sub(1, 99):find(p)",
        "s:find(p)",
    ),
}


@pytest.mark.parametrize("name", LONG_CALLS)
def test_one_call_of_a_library_can_be_ended_before_it_is_done(
    gated: World, plain: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before, call = LONG_CALLS[name]
    script = f"{before} redis.call('get', 'begun') {call} redis.call('get', 'done')"
    for world in (gated, plain):
        world.host.reply, asked = OK, world.host.asked
        asked.clear()
        patience = iter([None])  # the clock is looked at before some calls, too

        def tick(asked: list[list[bytes]] = asked, left: Iterator[None] = patience) -> bytes | None:
            return next(left, b"enough") if asked else None

        monkeypatch.setattr(world.host, "tick", tick)
        with pytest.raises(Killed):
            world.run(script)
        assert asked == [[b"get", b"begun"]]


def test_too_little_memory_is_an_error_of_the_script(gated: World, plain: World) -> None:
    script = "local t = {} for i = 1, 1e7 do t[i] = redis.call('get', i) .. i end"
    for world in (gated, plain):
        world.host.reply = b"x" * 1000
        result = world.run(script)
        assert isinstance(result, Failure)
        assert b"not enough memory" in result.message
        assert world.run("return 7") == 7


@pytest.mark.parametrize("count", [3, 199, 201, 300])
def test_a_nil_is_never_left_out(gated: World, plain: World, count: int) -> None:
    for world in (gated, plain):
        world.host.asked.clear()
        result = world.run(f"return redis.call('get', unpack({{1, nil, 3}}, 1, {count}))")
        assert isinstance(result, Failure)
        assert b"must be strings or integers" in result.message
        assert not world.host.asked


def leave(world: World, nbytes: int) -> None:
    """So much memory and no more. It can end as suddenly: LuaJIT doubles its table of strings."""
    lua = world.sandbox._lua
    lua.set_max_memory(lua.get_memory_used() + nbytes)


def test_a_script_that_cannot_begin_for_lack_of_memory_fails() -> None:
    """With an argument that has no room. Unprotected that would be the end of the process."""
    world = World()
    assert world.run("return #ARGV[1]", b"x") == 1
    leave(world, 10_000)
    assert world.run("return #ARGV[1]", b"x" * 100_000) == NO_MEMORY
    assert world.run("return #ARGV[1]", b"x" * 100_000) == 100_000


def test_a_reply_that_has_no_room_is_an_error_and_not_kept() -> None:
    world = World()
    reply: list[Reply] = [b"%500d" % number for number in range(1000)]

    def run(argv: list[bytes]) -> Reply:
        leave(world, 10_000)
        return reply

    world.host.callee = lambda name: Command(name, run)  # type: ignore[method-assign]
    world.run("redis.call('get')")
    before = sys.getrefcount(reply)
    for _ in range(10):
        world.sandbox._collect_garbage()  # which would make room
        result = world.run("return redis.pcall('get', 'k')")
        assert isinstance(result, Failure)
        assert b"not enough memory" in result.message
    assert sys.getrefcount(reply) <= before + 1


def test_a_sandbox_without_references_is_freed() -> None:
    world = World()
    world.run("return redis.call('get', 'k')")
    host = ref(world.host)
    del world
    gc.collect()
    assert host() is None


def test_scripts_that_are_forgotten_take_no_memory(gated: World) -> None:
    def used_after(count: int) -> int:
        for index in range(count):
            gated.run(f"return '{index:010d}' .. '{'x' * 1000}'")
        gated.sandbox._collect_garbage()
        return gated.sandbox.used_bytes

    assert used_after(2000) < used_after(10) + 200_000


def test_scripts_that_are_loaded_and_forgotten_take_no_memory(gated: World) -> None:
    """None of them runs, and Lua lets go of them when the next one comes."""

    def used_after(count: int) -> int:
        for index in range(count):
            gated.sandbox.compile(f"return '{index:010d}' .. '{'x' * 1000}'".encode(), b"@x")
        gated.sandbox._collect_garbage()
        return gated.sandbox.used_bytes

    assert used_after(2000) < used_after(10) + 200_000


def test_a_script_may_be_forgotten_while_another_one_runs() -> None:
    """Lua is not to be touched then: the Held that dies leaves its number."""
    world = World()
    held: list[object] = []

    def forget(argv: list[bytes]) -> Reply:
        held.clear()
        return len(argv)

    world.host.callee = lambda name: Command(name, forget)  # type: ignore[method-assign]
    world.run("redis.pcall('get')")  # now there is a door
    held += [world.sandbox.compile(b"return 1", b"@x") for _ in range(100)]
    in_coroutine = "return coroutine.wrap(function() return redis.call('get', 'k') end)()"
    assert world.run(in_coroutine) == 2
    assert not held
    assert world.run("return redis.call('get', 'k', 'x')") == 3


def test_one_script_runs_at_a_time() -> None:
    world = World()
    box = world.sandbox
    function = box.compile(b"return 1", b"@user_script")
    heard: list[str] = []

    def run_another(argv: list[bytes]) -> Reply:
        with pytest.raises(RuntimeError) as caught:
            box._gate.run(box._run, function, 0, [b"EVAL", b"", b"0"], world.host, 1)
        heard.append(str(caught.value))
        return OK

    world.host.callee = lambda name: Command(name, run_another)  # type: ignore[method-assign]
    world.run("redis.pcall('set')")  # now there is a door
    world.run("return redis.call('set', 'k')")
    assert heard == ["this Lua runs a script already"]
    assert world.run("return 2") == 2


def test_a_script_that_lupa_runs_calls_through_lupa() -> None:
    """lupa gives up the GIL while Lua runs, and the gate needs it."""
    world = World()
    text = "return redis.call('get', 'k')"
    world.run(text)  # now there is a door
    world.run(text)
    assert (world.host.passed, len(world.host.asked)) == (1, 2)
    function = world.sandbox._compiled(text.encode(), b"@user_script")
    world.sandbox._world[b"run"](function, 0)
    assert (world.host.passed, len(world.host.asked)) == (1, 3)


def test_other_threads_get_their_turn_while_a_script_runs() -> None:
    """Nothing here is run by the interpreter, which would let them anyway."""
    world = World()
    answers: list[list[bytes]] = []
    looks: SimpleQueue[None] = SimpleQueue()

    def answer() -> None:
        looks.get()
        answers.append([b"get", b"k"])

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.host, "callee", lambda name: Command(name, answers.count))
        patch.setattr(world.host, "tick", partial(looks.put, None))
        ask = "for i = 1, 2e6 do if redis.call('get', 'k') == 1 then return 'answered' end end"
        assert world.run(f"redis.pcall('get') {ask}") == b"answered"
    thread.join()
