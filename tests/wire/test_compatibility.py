"""docs/compatibility.md is true and complete: every difference it lists is shown here, with both
servers, by the test that carries its id.
"""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.server.config.config import Config
from tests.harness import HoldfastServer, Pair, RawClient, RedisServer, open_pair, wait_until
from tests.harness.in_process import InProcess
from tests.wire.differences import DIFFERENCES
from tests.wire.test_differential import LEFT_OUT

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENTED = re.findall(r"^### (\S+)$", (DOCS / "compatibility.md").read_text(), re.MULTILINE)
Test = TypeVar("Test", bound=Callable[..., None])
SHOWN: set[str] = set()


def shows(*ids: str) -> Callable[[Test], Test]:
    def register(test: Test) -> Test:
        SHOWN.update(ids)
        return test

    return register


def test_every_difference_is_shown_and_every_shown_one_is_listed() -> None:
    assert sorted(SHOWN) == sorted(DOCUMENTED)


def test_differences_that_generated_tests_allow_are_listed() -> None:
    assert {difference.id for difference in DIFFERENCES} <= set(DOCUMENTED)


def test_commands_that_generated_tests_leave_out_refer_to_a_listed_difference() -> None:
    references = {reason for reason in LEFT_OUT.values() if " " not in reason}
    assert references <= set(DOCUMENTED)


def both(pair: Pair, *args: bytes | str | int) -> tuple[bytes, bytes]:
    return pair.ours.command(*args), pair.oracle.command(*args)


def setting(client: RawClient, name: str) -> bytes:
    reply = client.command("CONFIG", "GET", name)
    return reply.split(b"\r\n")[4]


@shows("durability-default")
def test_answers_wait_for_the_disk_by_default(pair: Pair) -> None:
    assert [setting(client, "appendfsync") for client in (pair.ours, pair.oracle)] == [
        b"always",
        b"everysec",
    ]
    assert [setting(client, "appendonly") for client in (pair.ours, pair.oracle)] == [b"yes", b"no"]


@shows("no-snapshots")
def test_save_writes_no_other_file(start_server: Callable[..., HoldfastServer]) -> None:
    server = start_server("--save", "1 1")
    client = server.client()
    client.command("SET", "k", "v")
    files = {file.name for file in server.folder.iterdir()}
    assert client.command("SAVE") == b"+OK\r\n"
    assert client.command("BGSAVE")[:1] == b"+"
    assert {file.name for file in server.folder.iterdir()} == files
    assert setting(start_server().client(), "save") == b""


@shows("memory-is-a-cache")
def test_a_small_maxmemory_refuses_and_loses_nothing(
    start_server: Callable[..., HoldfastServer], tmp_path: Path
) -> None:
    with RedisServer(tmp_path / "oracle", "--maxmemory", "1") as oracle:
        assert oracle.client().command("SET", "k", "v")[:5] == b"-OOM "
    client = start_server("--maxmemory", "1").client()
    for number in range(100):
        assert client.command("SET", f"k{number}", number) == b"+OK\r\n"
    assert client.command("SAVE") == b"+OK\r\n"
    for number in range(100):
        assert client.command("GET", f"k{number}").endswith(b"\r\n%d\r\n" % number)


@shows("lazy-freeing")
@pytest.mark.parametrize("command", ["DEL", "UNLINK"])
def test_a_large_key_goes_as_one_row_whatever_lazyfree_says(command: str) -> None:
    for lazy in ("yes", "no"):
        world = InProcess({"lazyfree-lazy-user-del": lazy})
        peer = world.peer()
        peer.command("RPUSH", "k", *range(5000))
        peer.send(command, "k")
        assert len(world.engine.keyspace.ops) == 1
        assert peer.replies() == [b":1\r\n"]
        assert b"lazyfree_pending_objects:1\r\n" in peer.command("INFO", "memory")


@shows("output-limit")
def test_unread_replies_are_bounded(pair: Pair) -> None:
    ours, theirs = (
        setting(client, "client-output-buffer-limit") for client in (pair.ours, pair.oracle)
    )
    assert ours.startswith(b"normal 268435456 0 0 ")
    assert theirs.startswith(b"normal 0 0 0 ")


@shows("argument-limit")
def test_arguments_are_bounded(pair: Pair) -> None:
    announced = 1024 * 1024 + 1
    pair.ours.send(b"*%d\r\n" % announced)
    assert pair.ours.read_reply() == b"-ERR Protocol error: invalid multibulk length\r\n"
    pair.oracle.send(b"*%d\r\n$4\r\nECHO\r\n" % announced + b"$0\r\n\r\n" * (announced - 1))
    assert pair.oracle.read_reply() == b"-ERR wrong number of arguments for 'echo' command\r\n"


@shows("local-by-default")
def test_only_this_machine_is_served_by_default(server: HoldfastServer) -> None:
    assert setting(server.client(), "bind") == b"127.0.0.1 -::1"


@shows("blocking-null")
@pytest.mark.parametrize("name", ["BLPOP", "BRPOP", "BZPOPMIN", "BZPOPMAX"])
def test_a_timeout_is_a_null_bulk_string(pair: Pair, name: str) -> None:
    expected = (b"$-1\r\n", b"*-1\r\n") if pair.protocol == 2 else (b"_\r\n", b"_\r\n")
    assert both(pair, name, "k", "0.001") == expected


@shows("blocking-timeout-text")
def test_timeouts_that_are_none(pair: Pair) -> None:
    ours = b"-ERR timeout is not an integer or out of range\r\n"
    assert both(pair, "BLPOP", "k", "x") == (
        ours,
        b"-ERR timeout is not a float or out of range\r\n",
    )
    assert both(pair, "BLPOP", "k", "1e300") == (ours, b"-ERR timeout is negative\r\n")


@pytest.fixture
def waiting(server: HoldfastServer, oracle: RedisServer, pair: Pair) -> Iterator[list[RawClient]]:
    """A second client of each server, for the test to let wait."""
    with RawClient.connect(server.port) as ours, RawClient.connect(oracle.port) as theirs:
        yield [ours, theirs]


@shows("blocking-key-order")
def test_a_waiter_is_served_in_its_own_order(pair: Pair, waiting: list[RawClient]) -> None:
    replies = []
    for client, waiter in zip((pair.ours, pair.oracle), waiting, strict=True):
        id_ = int(waiter.command("CLIENT", "ID")[1:])
        waiter.send_command("BLPOP", "first", "second", 0)
        wait_until(
            lambda client=client, id_=id_: (  # type: ignore[misc]
                b"flags=b" in client.command("CLIENT", "LIST", "ID", id_)
            ),
            "it waits",
        )
        client.command("MULTI")
        client.command("RPUSH", "second", "b")
        client.command("RPUSH", "first", "a")
        client.command("EXEC")
        replies.append(waiter.read_reply())
    assert replies == [b"*2\r\n$5\r\nfirst\r\n$1\r\na\r\n", b"*2\r\n$6\r\nsecond\r\n$1\r\nb\r\n"]


@shows("blocking-limits")
def test_no_command_waits_for_too_many_keys(pair: Pair) -> None:
    ours, theirs = both(pair, "BLPOP", *(f"k{number}" for number in range(129)), "0.001")
    assert b"at most 128" in ours
    assert theirs[:1] in (b"*", b"_")


@shows("minus-zero")
def test_minus_zero_is_zero(pair: Pair) -> None:
    for scored in [(-0.0, "small")], [(number, f"m{number}") for number in range(200)]:
        pair.same("ZADD", "k", *(word for one in scored for word in one))
    assert pair.same("ZSCORE", "k", "small").endswith(b"0\r\n")
    pair.same("ZADD", "k", "-0", "large")
    ours, theirs = both(pair, "ZSCORE", "k", "large")
    assert ours == theirs.replace(b"-0", b"0").replace(b"$2", b"$1")
    assert b"-0" in theirs


@shows("nul-in-words")
def test_a_nul_does_not_end_a_word(pair: Pair) -> None:
    ours, theirs = both(pair, "SET", "k", "v", "NX\0x")
    assert (ours, theirs) == (b"-ERR syntax error\r\n", b"+OK\r\n")


@shows("keys-of-mistakes")
def test_keys_are_protected_also_from_commands_that_would_fail(pair: Pair) -> None:
    pair.same("ACL", "SETUSER", "stranger", "+@all")
    for words in ("PFMERGE k", "ZUNIONSTORE k x other", "ZUNIONSTORE k 5 other"):
        ours, theirs = both(pair, "ACL", "DRYRUN", "stranger", *words.split())
        assert b"no permissions to access the 'k' key" in ours
        assert theirs == b"+OK\r\n"
    for words in ("PFMERGE k", "ZUNIONSTORE k x other"):
        ours, theirs = both(pair, "COMMAND", "GETKEYS", *words.split())
        assert ours == b"*1\r\n$1\r\nk\r\n"
        assert theirs == b"-ERR Invalid arguments specified for command\r\n"
    pair.same("ACL", "DELUSER", "stranger")


@shows("geo-ties")
def test_equally_far_away(pair: Pair) -> None:
    for number in range(30):
        pair.same("GEOADD", "k", 1, 1, f"m{number:02}")
    nearest = ("GEOSEARCH", "k", "FROMLONLAT", 1, 1, "BYRADIUS", 1, "km", "COUNT", 3)
    ours, theirs = both(pair, *nearest)
    assert ours == b"*3\r\n$3\r\nm00\r\n$3\r\nm01\r\n$3\r\nm02\r\n"
    assert len(theirs) == len(ours)
    assert theirs != ours


@shows("version")
def test_a_rank_comes_with_its_score(pair: Pair) -> None:
    pair.same("ZADD", "k", 1, "a", 2.5, "b")
    for name, rank in ("ZRANK", 1), ("ZREVRANK", 0):
        ours, theirs = both(pair, name, "k", "b", "WITHSCORE")
        score = b"$3\r\n2.5" if pair.protocol == 2 else b",2.5"
        assert ours == b"*2\r\n:%d\r\n%s\r\n" % (rank, score)
        assert theirs[:1] == b"-"
        nothing = b"*-1\r\n" if pair.protocol == 2 else b"_\r\n"
        assert pair.ours.command(name, "k", "nobody", "WITHSCORE") == nothing
        assert pair.ours.command(name, "missing", "b", "WITHSCORE") == nothing
        assert pair.ours.command(name, "k", "b", "SCORE") == b"-ERR syntax error\r\n"
        assert b"wrong number of arguments" in pair.ours.command(name, "k", "b", "WITHSCORE", "x")


@shows("messages-around-exec")
def test_a_message_does_not_come_inside_of_a_reply(pair: Pair) -> None:
    message = b"3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\ny\r\n"
    mark = b">" if pair.protocol == 3 else b"*"
    for client, comes_first in ((pair.ours, True), (pair.oracle, False)):
        for command in ("MULTI", "SUBSCRIBE x", "PUBLISH x y", "EXEC"):
            client.send_command(*command.split())
        client.read_replies(3)
        subscribed = mark + b"3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n"
        if comes_first:
            assert client.read_reply() == mark + message
            assert client.read_reply() == b"*2\r\n" + subscribed + b":1\r\n"
        else:
            assert client.read_reply() == b"*2\r\n" + subscribed + mark + message
            assert client.read_reply() == b":1\r\n"


@shows("tracking-null")
def test_a_flush_is_told_in_the_protocol_of_the_client_that_is_told(
    server: HoldfastServer, oracle: RedisServer, pair: Pair
) -> None:
    """`pair` reads keys that a client with the other protocol tracks."""
    if pair.protocol == 2:
        told, theirs, ours = b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n", b"_", b"$-1"
    else:
        told, theirs, ours = b">2\r\n$10\r\ninvalidate\r\n", b"$-1", b"_"
    for port, client, null in (
        (server.port, pair.ours, ours),
        (oracle.port, pair.oracle, theirs),
    ):
        with RawClient.connect(port) as tracker:
            tracker.command("HELLO", 5 - pair.protocol)
            client_id = client.command("CLIENT", "ID")[1:-2]
            client.command("SUBSCRIBE", "__redis__:invalidate")
            assert tracker.command("CLIENT", "TRACKING", "ON", "REDIRECT", client_id) == b"+OK\r\n"
            tracker.command("FLUSHALL")
            assert client.read_reply() == told + null + b"\r\n"


@shows("version")
def test_the_version_is_that_of_what_is_here(pair: Pair) -> None:
    ours, theirs = both(pair, "INFO", "server")
    assert b"redis_version:8.10.0\r\n" in ours
    assert b"\r\nholdfast_version:" in ours
    assert b"redis_version:7.0." in theirs
    for newer in (
        ("CLIENT", "SETINFO", "LIB-NAME", "x"),
        ("CLIENT", "NO-TOUCH", "ON"),
        ("CLIENT", "KILL", "MAXAGE", 1_000_000),
        ("HTTL", "missing", "FIELDS", 1, "field"),
        ("XDELEX", "missing", "IDS", 1, "1"),
    ):
        ours, theirs = both(pair, *newer)
        assert (ours[:1], theirs[:1]) in ((b"+", b"-"), (b":", b"-"), (b"*", b"-"))


@shows("streams-of-redis-8")
def test_a_stream_that_uses_nothing_new_is_described_as_by_redis_7(pair: Pair) -> None:
    pair.same("XADD", "s", "1", "a", "b")
    pair.same("XGROUP", "CREATE", "s", "g", "0")
    pair.same("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    pair.same("XINFO", "STREAM", "s")
    assert b"idmp-duration" not in pair.ours.command("XINFO", "STREAM", "s")
    assert pair.ours.command("XCFGSET", "s", "IDMP-MAXSIZE", 5) == b"+OK\r\n"
    assert pair.ours.command("XNACK", "s", "g", "FAIL", "IDS", 1, "1") == b":1\r\n"
    described = pair.ours.command("XINFO", "STREAM", "s", "FULL")
    assert b"idmp-maxsize\r\n:5\r\n" in described
    assert b"nacked-count\r\n:1\r\n" in described
    assert b"unknown command" in pair.ours.command("XIDMPRECORD", "s", "p", "1", "1-0")


@shows("string-encoding")
def test_an_encoding_is_that_of_the_value(pair: Pair) -> None:
    pair.same("INCRBYFLOAT", "number", "3000")
    assert both(pair, "OBJECT", "ENCODING", "number") == (
        b"$3\r\nint\r\n",
        b"$6\r\nembstr\r\n",
    )


@shows("collection-encoding")
def test_an_encoding_is_worked_out_when_asked_for(
    start_server: Callable[..., HoldfastServer], oracle: RedisServer
) -> None:
    with open_pair(start_server(), oracle, 2) as pair:
        pair.same("HSET", "h", "a", 1, "b", 2)
        pair.same("SADD", "s", 1, 2)
        try:
            pair.same("CONFIG", "SET", "hash-max-listpack-entries", 1, "set-max-intset-entries", 1)
            for name, theirs in (("h", b"$8\r\nlistpack\r\n"), ("s", b"$6\r\nintset\r\n")):
                answers = both(pair, "OBJECT", "ENCODING", name)
                assert answers == (b"$9\r\nhashtable\r\n", theirs)
        finally:
            for setting in ("hash-max-listpack-entries", "set-max-intset-entries"):
                pair.same("CONFIG", "SET", setting, 512)


@shows("scan-cursor")
def test_cursors_are_our_own_and_find_everything(pair: Pair) -> None:
    names = {b"key:%d" % number for number in range(500)}
    for client in (pair.ours, pair.oracle):
        client.command("MSET", *(word for name in names for word in (name, b"v")))
    cursors = []
    for client in (pair.ours, pair.oracle):
        cursor, seen = b"0", set()
        for _ in range(1000):
            lines = client.command("SCAN", cursor, "COUNT", 7).split(b"\r\n")
            cursor = lines[2]
            cursors.append(cursor)
            seen |= set(lines[5:-1:2])
            if cursor == b"0":
                break
        assert seen == names
    assert cursors[0] != cursors[cursors.index(b"0") + 1]


@shows("excluded")
def test_holdfast_sends_no_keys_to_other_servers(pair: Pair) -> None:
    ours, theirs = both(pair, "MIGRATE", "127.0.0.1", 1, "missing", 0, 10)
    assert b"use DUMP and RESTORE" in ours
    assert theirs == b"+NOKEY\r\n"


@shows("replicas")
def test_a_replica_that_was_killed_needs_no_snapshot(
    oracle: RedisServer, start_server: Callable[..., HoldfastServer]
) -> None:
    """A redis-server that was killed has nothing to go on from."""
    follows = ("--replicaof", f"127.0.0.1 {oracle.port}")
    replica = start_server(*follows)
    client = oracle.client()

    def syncs() -> bytes:
        stats = client.command("INFO", "stats")
        return stats[stats.index(b"sync_full") : stats.index(b"sync_partial_err")]

    def is_up() -> bool:
        return b"master_link_status:up" in copy.command("INFO", "replication")

    copy = replica.client()
    wait_until(is_up, "it follows")
    before = syncs()
    replica.kill()
    replica.start()
    copy = replica.client()
    wait_until(is_up, "it follows")
    full, partial = before.split()
    count = int(partial.partition(b":")[2])
    assert syncs().split() == [full, b"sync_partial_ok:%d" % (count + 1)]


@shows("dump-form")
def test_dumps_are_of_another_form_and_the_same_value(pair: Pair) -> None:
    pair.same("RPUSH", "k", "a", "b" * 100)
    ours, theirs = both(pair, "DUMP", "k")
    assert ours != theirs
    dumped = ours.partition(b"\r\n")[2][:-2]
    assert both(pair, "RESTORE", "k2", 0, dumped) == (b"+OK\r\n", b"+OK\r\n")
    pair.same("LRANGE", "k2", 0, -1)


@shows("sort-ties")
def test_equal_weights_keep_the_order(pair: Pair) -> None:
    elements = list(range(20))
    pair.same("RPUSH", "k", *elements)
    ours, theirs = both(pair, "SORT", "k", "BY", "w_*", "ALPHA", "LIMIT", 0, 19)
    assert ours == pair.ours.command("LRANGE", "k", 0, 18)
    assert ours != theirs


@shows("own-numbers")
def test_numbers_are_our_own(pair: Pair) -> None:
    pair.same("SET", "k", "v")
    ours, theirs = both(pair, "MEMORY", "USAGE", "k")
    assert ours != theirs
    ours, theirs = both(pair, "LATENCY", "DOCTOR")
    assert ours != theirs


@shows("info-fields")
def test_every_field_of_info_is_here_or_is_listed(pair: Pair) -> None:
    text = (DOCS / "compatibility.md").read_text()
    entry = text.partition("### info-fields\n")[2].partition("\n### ")[0]
    listed = set(re.findall(r"`(\w+)`", entry))
    for client in (pair.ours, pair.oracle):
        client.command("SET", "k", "v")
        client.command("NOSUCH")
    sections = [
        _sections(client.command("INFO", "everything")) for client in (pair.ours, pair.oracle)
    ]
    ours, theirs = sections
    assert ours.keys() >= theirs.keys()
    own = {"Commandstats", "Latencystats", "Errorstats"}  # a field for each command, or error
    missing = {name for title in theirs.keys() - own for name in theirs[title] - ours[title]}
    assert missing <= listed
    assert not listed & {name for names in ours.values() for name in names}


def _sections(reply: bytes) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for line in reply.decode().split("\r\n"):
        if line.startswith("# "):
            title = line[2:]
            found[title] = set()
        elif ":" in line and found:
            found[title].add(line.partition(":")[0])
    return found


@shows("info-fields")
def test_every_field_of_memory_stats_is_here_but_the_allocators(pair: Pair) -> None:
    pair.same("SET", "k", "v")
    ours, theirs = (
        set(re.findall(rb"\$\d+\r\n([a-z][a-z.0-9-]*)\r\n", reply))
        for reply in both(pair, "MEMORY", "STATS")
    )
    assert all(name.startswith((b"allocator", b"rss-overhead")) for name in theirs - ours)
    assert ours <= theirs


@shows("help-text")
@pytest.mark.parametrize("name", ["CLIENT", "COMMAND", "CONFIG", "OBJECT", "PUBSUB", "SLOWLOG"])
def test_help_is_in_our_own_words(pair: Pair, name: str) -> None:
    ours, theirs = both(pair, name, "HELP")
    title = b"+%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n" % name.encode()
    assert title in ours
    assert title in theirs
    assert ours != theirs


@shows("command-docs")
def test_docs_do_not_describe_arguments(pair: Pair) -> None:
    ours, theirs = both(pair, "COMMAND", "DOCS", "get")
    assert b"$7\r\nsummary\r\n" in ours
    assert b"arguments" not in ours
    assert b"arguments" in theirs


@shows("debug")
def test_debug_is_small(start_server: Callable[..., HoldfastServer], oracle: RedisServer) -> None:
    ours = start_server("--enable-debug-command", "yes").client()
    with RawClient.connect(oracle.port) as theirs:
        for client in (ours, theirs):
            assert client.command("DEBUG", "SLEEP", 0) == b"+OK\r\n"
        assert ours.command("DEBUG", "HTSTATS", 0)[:1] == b"-"
        assert theirs.command("DEBUG", "HTSTATS", 0)[:1] != b"-"


@shows("himport-encoding")
def test_an_imported_hash_is_an_ordinary_one(pair: Pair) -> None:
    ours = pair.ours
    ours.command("HIMPORT", "PREPARE", "u", "name", "age")
    ours.command("HIMPORT", "SET", "k", "u", "alice", 7)
    assert ours.command("OBJECT", "ENCODING", "k") == b"$8\r\nlistpack\r\n"
    assert ours.command("HKEYS", "k").endswith(b"name\r\n$3\r\nage\r\n")


@shows("exact-counts")
def test_an_estimate_is_exact(pair: Pair) -> None:
    members = list(range(5000))
    pair.ours.command("SADD", "s", *members)
    assert pair.ours.command("SUNIONCARD", 1, "s", "APPROX") == b":5000\r\n"


@shows("commandlog-limits")
def test_sizes_are_looked_at_only_if_asked_for(valkey_pair: Pair) -> None:
    limits = [setting(client, "commandlog-request-larger-than") for client in both_of(valkey_pair)]
    assert limits == [b"-1", b"1048576"]


@shows("database-rules")
def test_a_user_without_rules_about_databases(valkey_pair: Pair) -> None:
    shown = [client.command("ACL", "GETUSER", "default") for client in both_of(valkey_pair)]
    assert [b"databases" in reply for reply in shown] == [False, True]


@shows("subkey-classes")
def test_classes_of_later_versions(pair: Pair) -> None:
    ours, theirs = both(pair, "CONFIG", "SET", "notify-keyspace-events", "hS")
    assert ours == b"+OK\r\n"
    assert theirs.startswith(b"-ERR CONFIG SET failed")
    ours, theirs = both(pair, "CONFIG", "SET", "notify-keyspace-events", "?")
    assert b"Use 'Ag$lshzxeKEtmdnocaSTIV'." in ours
    assert b"Use 'Ag$lshzxeKEtmdn'." in theirs
    pair.same("CONFIG", "SET", "notify-keyspace-events", "")


def both_of(pair: Pair) -> tuple[RawClient, RawClient]:
    return pair.ours, pair.oracle


@shows("own-settings")
@pytest.mark.parametrize("name", ["db", "blocking-max-keys-per-wait", "http-port"])
def test_our_own_settings(pair: Pair, name: str) -> None:
    ours, theirs = both(pair, "CONFIG", "GET", name)
    assert name.encode() in ours
    assert theirs in (b"*0\r\n", b"%0\r\n")


@shows("inert-settings")
def test_settings_without_effect_are_named(start_server: Callable[..., HoldfastServer]) -> None:
    server = start_server("--rdbcompression", "no")
    assert setting(server.client(), "rdbcompression") == b"no"
    assert "rdbcompression" in server.stderr
    assert Config({"rdbcompression": "no"}).without_effect() == ["rdbcompression"]


@shows("acl-waiting")
def test_a_waiting_client_is_checked_again(
    server: HoldfastServer, oracle: RedisServer, pair: Pair
) -> None:
    answers = []
    for servers_client, admin in ((server.client(), pair.ours), (oracle.client(), pair.oracle)):
        admin.command("ACL", "SETUSER", "al", "on", ">p", "+@all", "~*")
        servers_client.command("AUTH", "al", "p")
        servers_client.send_command("BLPOP", "forbidden", 0)
        wait_until(lambda admin=admin: b"flags=b" in admin.command("CLIENT", "LIST"), "he waits")  # type: ignore[misc]
        admin.command("ACL", "SETUSER", "al", "resetkeys", "~other")
        admin.command("RPUSH", "forbidden", "x")
        answers.append(servers_client.read_reply())
        answers.append(admin.command("LLEN", "forbidden"))
        admin.command("ACL", "DELUSER", "al")
    assert answers == [
        b"-NOPERM this user has no permissions to access one of the keys used as arguments\r\n",
        b":1\r\n",
        b"*2\r\n$9\r\nforbidden\r\n$1\r\nx\r\n",
        b":0\r\n",
    ]


@shows("tls-settings")
def test_authorities_stay_as_they_were_at_the_start() -> None:
    for port, answer in ((0, b"+OK\r\n"), (1, b"-ERR CONFIG SET failed (possibly related to")):
        peer = InProcess({"tls-port": str(port)}).peer()
        assert peer.command("CONFIG", "SET", "tls-ca-cert-file", "x").startswith(answer)


# -- scripts --------------------------------------------------------------------------------------


@shows("script-rollback")
def test_a_script_that_fails_has_written_nothing(pair: Pair) -> None:
    ours, theirs = both(pair, "EVAL", "redis.call('set', 'k', 'v') error('x')", 0)
    assert ours == theirs
    assert both(pair, "GET", "k") == (
        b"$-1\r\n" if pair.protocol == 2 else b"_\r\n",
        b"$1\r\nv\r\n",
    )


@shows("script-busy")
def test_sigterm_ends_a_script_that_overruns(tmp_path: Path) -> None:
    limit = ("--lua-time-limit", "50")
    with (
        HoldfastServer(tmp_path / "ours", *limit) as ours,
        RedisServer(tmp_path / "oracle", *limit) as oracle,
    ):
        for server in (ours, oracle):
            victim, client = server.client(), server.client()
            assert client.command("PING") == b"+PONG\r\n"  # it was let in
            victim.send_command("EVAL", "while true do end", 0)
            while client.command("PING") == b"+PONG\r\n":
                pass
            server.process.send_signal(signal.SIGTERM)
            if server is oracle:
                assert client.command("PING")[:5] == b"-BUSY"
                assert client.command("SCRIPT", "KILL") == b"+OK\r\n"
            assert server.process.wait(60) == 0


@shows("script-cache")
def test_scripts_are_kept_if_they_were_loaded(pair: Pair) -> None:
    sha = pair.same("EVAL", "return redis.sha1hex('return 1')", 0).split(b"\r\n")[1]
    pair.same("EVAL", "return 1", 0)
    for number in range(501):
        pair.same("EVAL", f"return {number} + 1", 0)
    assert both(pair, "SCRIPT", "EXISTS", sha) == (b"*1\r\n:0\r\n", b"*1\r\n:1\r\n")


@shows("luajit")
def test_lua_is_another_one(pair: Pair) -> None:
    assert both(pair, "EVAL", "return '\\x41'", 0) == (b"$1\r\nA\r\n", b"$3\r\nx41\r\n")
    assert both(pair, "EVAL", "return tostring(0/0)", 0) == (b"$3\r\nnan\r\n", b"$4\r\n-nan\r\n")
    assert both(pair, "EVAL", "return #string.format('%c', 0)", 0) == (b":1\r\n", b":0\r\n")
    assert both(pair, "EVAL", "return tonumber('-5', 16) < 0 and 1 or 2", 0) == (
        b":1\r\n",
        b":2\r\n",
    )


@shows("script-debugger")
def test_there_is_no_debugger(pair: Pair) -> None:
    ours, theirs = both(pair, "SCRIPT", "DEBUG", "YES")
    assert (ours[:4], theirs) == (b"-ERR", b"+OK\r\n")
    pair.oracle.command("SCRIPT", "DEBUG", "NO")


@shows("auth-timeout")
def test_a_client_has_a_time_to_sign_in(pair: Pair) -> None:
    assert setting(pair.ours, "auth-timeout") == b"60"
    assert pair.oracle.command("CONFIG", "GET", "auth-timeout")[1:] == b"0\r\n"


@shows("negative-counts")
@pytest.mark.parametrize("command", ["SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER"])
def test_a_negative_count_is_bounded(pair: Pair, command: str) -> None:
    pair.same("SADD", "SRANDMEMBER", "a")
    pair.same("HSET", "HRANDFIELD", "a", 1)
    pair.same("ZADD", "ZRANDMEMBER", 1, "a")
    # A script counts the elements, because a reply of a million takes the test seconds to read.
    count = "return #redis.call(KEYS[1], KEYS[1], ARGV[1])"
    assert pair.ours.command(command, command, -1_048_577).startswith(b"-ERR ")
    ours, theirs = both(pair, "EVAL", count, 1, command, -1_048_577)
    assert ours.startswith(b"-ERR ")
    assert theirs == b":1048577\r\n"


@shows("redacted-arguments")
def test_secrets_are_hidden_in_commands_with_a_mistake(pair: Pair) -> None:
    pair.same("CONFIG", "SET", "slowlog-log-slower-than", 0)
    shown = both(pair, "COMMAND", "GETKEYS", "MIGRATE", "h", 1, "k", 0, 1, "AUTH", "my-secret")
    assert shown[0] == shown[1]
    ours, theirs = both(pair, "SLOWLOG", "GET", 2)
    pair.same("CONFIG", "SET", "slowlog-log-slower-than", 10000)
    assert b"my-secret" not in ours
    assert b"my-secret" in theirs


@shows("script-log")
def test_a_script_logs_one_line(
    start_server: Callable[..., HoldfastServer], tmp_path: Path
) -> None:
    script = "redis.log(redis.LOG_WARNING, 'one\\ntwo')"
    ours = start_server()
    with RedisServer(tmp_path / "oracle") as oracle:
        for server in (ours, oracle):
            assert server.client().command("EVAL", script, 0) == b"$-1\r\n"
        said = ours.stdout + ours.stderr
        assert "one\\ntwo" in said
        assert "one\ntwo" not in said
        assert "one\ntwo" in oracle.stdout
