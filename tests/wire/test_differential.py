"""Generated commands, to us and to redis-server: the same bytes come back, the same data stays.

HOLDFAST_DIFFERENTIAL=N runs N times as many, from a new seed each time; without it the commands
are the same in every run.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import all_commands as all_commands
from holdfast.commands.table import TABLE
from tests.harness import HoldfastServer, RedisServer
from tests.wire import generators
from tests.wire.differential import Servers, Step
from tests.wire.generators import FORMS, Form
from tests.wire.grammar import KEYS, Argv

TIMES_LONGER = int(os.environ.get("HOLDFAST_DIFFERENTIAL", "0"))
EFFORT = settings(
    deadline=None,
    derandomize=not TIMES_LONGER,
    max_examples=150 * max(TIMES_LONGER, 1),
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
pytestmark = [pytest.mark.oracle, pytest.mark.timeout(120 * max(TIMES_LONGER, 1))]


OURS = ("--appendfsync", "no", "--enable-debug-command", "yes")


@contextmanager
def both_servers(folder: Path, *our_options: str) -> Iterator[Servers]:
    # Redis looks for clients that waited long enough once a tick: let it tick often.
    with (
        RedisServer(folder / "theirs", "--hz", "500") as theirs,
        HoldfastServer(folder / "ours", *OURS, *our_options) as ours,
    ):
        yield Servers(ours, theirs)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with both_servers(tmp_path_factory.mktemp("differential")) as servers:
        yield servers


def is_ours(form: Form) -> bool:
    """Whether the command exists here; those that do not are accounted for in test_docs."""
    container, _, sub = form.name.partition("|")
    entry = TABLE.get(container)
    return entry is not None and (not sub or sub in entry.subcommands)


def one_command(rng: random.Random) -> Argv:
    return generators.command(rng, is_ours)


def on_few_keys(argv: Argv) -> Argv:
    """So few that clients get into each other's way."""
    few = (b"missing", b"list", b"missing2", b"single")
    return tuple(few[KEYS.index(arg) % len(few)] if arg in KEYS else arg for arg in argv)


def in_a_crowd(rng: random.Random) -> Argv:
    """Of several clients; nothing that fills several keys at once (blocking-key-order)."""
    fill_several = ("multi", "swapdb")
    return on_few_keys(
        generators.command(rng, lambda form: is_ours(form) and form.name not in fill_several)
    )


def in_a_crowd_of_transactions(rng: random.Random) -> Argv:
    """Of several clients; nothing that waits for several keys (blocking-key-order)."""
    wait_for_several = ("blpop", "brpop", "blmpop", "bzpopmin", "bzpopmax", "bzmpop")

    def is_wanted(form: Form) -> bool:
        return is_ours(form) and not (
            form.name in wait_for_several or "STREAMS stream stream" in form.text
        )

    return on_few_keys(generators.command(rng, is_wanted))


CROWDS = [in_a_crowd, in_a_crowd_of_transactions]


def batches(make: Callable[[random.Random], Argv]) -> st.SearchStrategy[list[Argv]]:
    return st.lists(st.randoms(use_true_random=False).map(make), min_size=1, max_size=6)


@EFFORT
@given(data=st.lists(batches(one_command), max_size=12))
def test_one_client(servers: Servers, protocol: int, data: list[list[Argv]]) -> None:
    servers.run(protocol, [(0, batch) for batch in data])


def in_turns(make: Callable[[random.Random], Argv]) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.integers(0, 2), batches(make)), max_size=16)


@EFFORT
@given(data=st.one_of([in_turns(make) for make in CROWDS]))
def test_three_clients(servers: Servers, protocol: int, data: list[Step]) -> None:
    servers.run(protocol, data, clients=3)


# -- long ones, from a seed ------------------------------------------------------------------------

LONG_RUNS = range(3 * max(TIMES_LONGER, 1))


@pytest.mark.parametrize("number", LONG_RUNS)
def test_a_long_sequence(servers: Servers, protocol: int, number: int) -> None:
    run_long(servers, protocol, number, one_command)


@pytest.mark.parametrize("number", LONG_RUNS)
def test_a_long_sequence_of_three_clients(servers: Servers, protocol: int, number: int) -> None:
    run_long(servers, protocol, number, CROWDS[number % 2], clients=3)


@pytest.mark.parametrize("number", LONG_RUNS)
def test_a_long_sequence_with_crashes(tmp_path: Path, number: int) -> None:
    """Memory holds next to nothing, so that values come from the file, also after a kill."""
    with both_servers(tmp_path, "--maxmemory", "1") as servers:
        for part in range(3):
            run_long(servers, 2, 1000 * number + part, one_command, 100)
            servers.crash_and_restart()
            servers.compare_data()


def run_long(
    servers: Servers,
    protocol: int,
    number: int,
    make: Callable[[random.Random], Argv],
    steps: int = 200,
    clients: int = 1,
) -> None:
    seed = random.SystemRandom().getrandbits(32) if TIMES_LONGER else number
    rng = random.Random(seed)
    sizes = (1, 1, 2, 5, 20)
    sent: list[Step] = [
        (rng.randrange(clients), [make(rng) for _ in range(rng.choice(sizes))])
        for _ in range(steps)
    ]
    try:
        servers.run(protocol, sent, clients)
    except AssertionError as error:
        error.add_note(f"seed {seed}; fewer steps that fail:")
        for step in fewest(sent, lambda fewer: fails(servers, protocol, fewer, clients)):
            error.add_note(repr(step))
        raise


def fails(servers: Servers, protocol: int, steps: list[Step], clients: int) -> bool:
    try:
        servers.run(protocol, steps, clients)
    except AssertionError:
        return True
    return False


def fewest(steps: list[Step], is_failing: Callable[[list[Step]], bool]) -> list[Step]:
    """Leave out unnecessary steps, large pieces first."""
    steps = [(who, [argv]) for who, batch in steps for argv in batch]
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if is_failing(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


EACH_COMMAND = [
    command
    for entry in TABLE.values()
    if entry.group in FORMS
    for command in (entry.subcommands.values() or [entry])
]

# Commands that no generator sends, and where they are held against redis-server instead.
LEFT_OUT = (
    {
        command.name: "would lock the generator out; see test_oracle_acl.py"
        for command in TABLE["acl"].subcommands.values()
    }
    | {
        command.name: "Redis has none of it; see tests/replication"
        for command in TABLE["active"].subcommands.values()
    }
    | {
        command.name: "younger than redis-server 7.0; see test_valkey.py and tests/commands"
        for command in EACH_COMMAND
        if [int(number) for number in command.since.split(".")] >= [7, 2]
    }
    | {
        "bgrewriteaof": "whether one is under way is a matter of time",
        "bgsave": "whether one is under way is a matter of time",
        "client|help": "help-text",
        "client|pause": "holds both servers up",
        "command|docs": "command-docs",
        "command|help": "help-text",
        "config|help": "help-text",
        "debug": "debug",
        "failover": "see tests/server/replica",
        "latency|doctor": "own-numbers",
        "latency|graph": "own-numbers",
        "latency|help": "help-text",
        "latency|histogram": "own-numbers",
        "latency|history": "own-numbers",
        "latency|latest": "own-numbers",
        "latency|reset": "own-numbers",
        "lolwut": "a picture",
        "memory|doctor": "own-numbers",
        "memory|help": "help-text",
        "memory|malloc-stats": "own-numbers",
        "memory|purge": "own-numbers",
        "memory|stats": "own-numbers",
        "memory|usage": "own-numbers",
        "migrate": "excluded",
        "module|help": "excluded",
        "module|list": "excluded",
        "module|load": "excluded",
        "module|loadex": "excluded",
        "module|unload": "excluded",
        "monitor": "never ends",
        "object|help": "help-text",
        "psubscribe": "messages would come between the replies",
        "pubsub|help": "help-text",
        "quit": "ends the connection",
        "randomkey": "random, and expires what it meets",
        "pfdebug": "see test_oracle_hyperloglog.py",
        "pfselftest": "see test_oracle_hyperloglog.py",
        "psync": "makes a replica of the client; see tests/server/primary",
        "replconf": "makes a replica of the client; see tests/server/primary",
        "replicaof": "see tests/server/replica",
        "restore-asking": "the same as RESTORE",
        "shutdown": "ends the server",
        "slaveof": "see tests/server/replica",
        "slowlog|help": "help-text",
        "xgroup|help": "help-text",
        "xinfo|help": "help-text",
        "ssubscribe": "messages would come between the replies",
        "subscribe": "messages would come between the replies",
        "sync": "makes a replica of the client; see tests/server/primary",
    }
)


def test_the_grammar_knows_every_command() -> None:
    known = {form.name for forms in FORMS.values() for form in forms}
    assert {command.name for command in EACH_COMMAND} - known == set(LEFT_OUT)
