"""AUTH, HELLO, CLIENT, MONITOR and the like, byte for byte as with redis-server."""

from collections.abc import Iterator

import pytest

from tests.harness import HoldfastServer, RedisServer
from tests.wire.stage import Stage, masked, open_stage


@pytest.fixture
def stage(server: HoldfastServer, oracle: RedisServer, protocol: int) -> Iterator[Stage]:
    with open_stage(server, oracle, protocol) as stage:
        yield stage


SCRIPTS = {
    "ping": "PING / PING hello / PING a b / ECHO / ECHO x / ECHO a b",
    "select": "SELECT 1 / SELECT 15 / SELECT 16 / SELECT -1 / SELECT x / SELECT 1.0 / SELECT",
    "select far out": "SELECT 2147483647 / SELECT 2147483648 / SELECT -2147483649 / SELECT +1",
    "auth without a password": "AUTH x / AUTH default x / AUTH nobody x / AUTH a b c / AUTH",
    "hello": "HELLO / HELLO 2 / HELLO / HELLO 3 / HELLO / HELLO 2",
    "hello versions": "HELLO 1 / HELLO 4 / HELLO x / HELLO 3.0 / HELLO -1 / HELLO 03",
    "hello options": "HELLO 3 AUTH / HELLO 3 AUTH a / HELLO 3 SETNAME / HELLO 3 NOPE / HELLO AUTH",
    "hello auth": "HELLO 3 AUTH nobody x / HELLO 2 AUTH default x / HELLO 3 AUTH default x SETNAME",
    "hello setname": "HELLO 3 SETNAME me / CLIENT GETNAME / HELLO 2 setname you auth default x",
    "reset": "SELECT 3 / CLIENT SETNAME x / HELLO 3 / RESET / CLIENT GETNAME / GET k / RESET x",
    "names": "CLIENT GETNAME / CLIENT SETNAME x / CLIENT GETNAME / "
    "CLIENT SETNAME / CLIENT SETNAME a b",
    "client arities": "CLIENT / CLIENT NOPE / CLIENT ID x / CLIENT GETNAME x / CLIENT INFO x",
    "more client arities": "CLIENT UNPAUSE x / CLIENT HELP x / CLIENT REPLY / CLIENT GETREDIR x",
    "no-evict": "CLIENT NO-EVICT on / CLIENT INFO / CLIENT NO-EVICT OFF / CLIENT NO-EVICT x",
    "tracking is off": "CLIENT TRACKINGINFO / CLIENT GETREDIR / "
    "CLIENT TRACKING OFF / CLIENT CACHING yes",
    "tracking mistakes": "CLIENT TRACKING x / CLIENT TRACKING on x / CLIENT TRACKING off REDIRECT",
    "reply mistakes": "CLIENT REPLY x / CLIENT REPLY on / CLIENT REPLY on off",
    "unblock mistakes": "CLIENT UNBLOCK x / CLIENT UNBLOCK 0 / "
    "CLIENT UNBLOCK 1 x / CLIENT UNBLOCK 1 ERROR x",
    "pause mistakes": "CLIENT PAUSE x / CLIENT PAUSE -1 / CLIENT PAUSE 1 x / "
    "CLIENT PAUSE 1 ALL x / CLIENT PAUSE 1.5",
    "pause of no time": "CLIENT PAUSE 0 / CLIENT UNPAUSE / SET k v",
    "pause too long": "CLIENT PAUSE 9223372036854775808 / CLIENT PAUSE 99999999999999999999",
    "list": "CLIENT LIST TYPE replica / CLIENT LIST TYPE MASTER / "
    "CLIENT LIST TYPE pubsub / CLIENT LIST TYPE slave",
    "list mistakes": "CLIENT LIST x / CLIENT LIST TYPE / CLIENT LIST TYPE x / "
    "CLIENT LIST ID / CLIENT LIST ID x",
    "more list mistakes": "CLIENT LIST TYPE normal x / CLIENT LIST ID 0 x / "
    "CLIENT LIST ID 0 999999999",
    "kill mistakes": "CLIENT KILL / CLIENT KILL x / CLIENT KILL ID x / "
    "CLIENT KILL ID 0 / CLIENT KILL ID",
    "more kill mistakes": "CLIENT KILL ID 1 x / CLIENT KILL TYPE x / "
    "CLIENT KILL USER x / CLIENT KILL NOPE x",
    "kill skipme mistakes": "CLIENT KILL SKIPME x / CLIENT KILL SKIPME no ID / "
    "CLIENT KILL ID x TYPE",
    "kill nobody": "CLIENT KILL ID 999999999 / CLIENT KILL ADDR x / "
    "CLIENT KILL LADDR x / CLIENT KILL TYPE master",
    "kill by type and user, but not me": "CLIENT KILL TYPE pubsub USER default SKIPME yes",
    "lower case": "client id x / ping / hello 3 setname x / client getname / select 0",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_one_client(stage: Stage, script: str) -> None:
    client = stage.enter()
    for line in script.split(" / "):
        client.do(line)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "a\x7f", "é", "a\x00", "!~"])
def test_names_that_a_list_can_show(stage: Stage, name: str) -> None:
    client = stage.enter()
    client.same("CLIENT", "SETNAME", name)
    client.same("CLIENT", "GETNAME")
    client.same("HELLO", stage.protocol, "SETNAME", name)


def test_a_line_about_a_client(stage: Stage) -> None:
    client, other = stage.enter(), stage.enter()
    ids = client.ids()
    other.same_about(ids, "CLIENT", "LIST", "ID", "#")
    client.do("CLIENT SETNAME me")
    client.do("SELECT 3")
    client.do("CLIENT INFO")
    client.do("WATCH k")
    other.do("SELECT 3")
    other.do("SET k v")
    client.do("MULTI")
    other.same_about(ids, "CLIENT", "LIST", "ID", "#")
    client.do("GET k")
    client.do("CLIENT INFO")
    other.same_about(ids, "CLIENT", "LIST", "ID", "#", "#", 999999999)
    client.do("DISCARD")
    client.do("MULTI")
    client.do("CLIENT INFO")
    client.do("EXEC")
    client.do("CLIENT NO-EVICT on")
    client.send_command("BLPOP", "nothing", 0)
    other.wait_for_blocked(1)
    other.same_about(ids, "CLIENT", "LIST", "ID", "#")


def test_fields_of_the_line_since_7_2(stage: Stage) -> None:
    client = stage.enter().ours
    assert client.command("CLIENT", "SETINFO", "LIB-NAME", "lib") == b"+OK\r\n"
    assert client.command("CLIENT", "SETINFO", "lib-ver", "1.2") == b"+OK\r\n"
    assert b" resp=%d lib-name=lib lib-ver=1.2\n" % stage.protocol in client.command(
        "CLIENT", "INFO"
    )
    assert client.command("CLIENT", "SETINFO", "lib-ver", "1 2") == (
        b"-ERR lib-ver cannot contain spaces, newlines or special characters.\r\n"
    )
    assert client.command("CLIENT", "SETINFO", "x", "y") == b"-ERR Unrecognized option 'x'\r\n"
    assert client.command("CLIENT", "NO-TOUCH", "on") == b"+OK\r\n"
    assert b" flags=T " in client.command("CLIENT", "INFO")
    assert client.command("RESET") == b"+RESET\r\n"
    info = client.command("CLIENT", "INFO")
    assert b" flags=N " in info
    assert b" lib-name=lib " in info  # the library stays the same


def test_a_hello_that_fails_changes_nothing(stage: Stage) -> None:
    client = stage.enter(protocol=2).ours  # 7.0 takes the name, 7.2 does not
    assert client.command("HELLO", 3, "SETNAME", "x", "NOPE").startswith(b"-ERR Syntax error")
    assert client.command("CLIENT", "GETNAME") == b"$-1\r\n"


# -- passwords ------------------------------------------------------------------------------------


def test_a_password(stage: Stage) -> None:
    boss = stage.enter()
    boss.do("CONFIG SET requirepass secret")
    boss.do("PING")  # existing connections stay
    client = stage.enter(protocol=2)
    for line in (
        "PING",
        "NOPE",
        "GET",
        "ECHO x",
        "CLIENT ID",
        "CLIENT NOPE",
        "MULTI",
        "EXEC",
        "MONITOR",
        "HELLO",
        "HELLO 3",
        "HELLO 3 SETNAME x",
        "HELLO 3 AUTH default wrong",
        "HELLO 9 AUTH default secret",
        "RESET",
        "AUTH wrong",
        "AUTH default wrong",
        "AUTH nobody secret",
        "PING",
        "AUTH secret",
        "AUTH wrong",
        "PING",
        "RESET",
        "PING",
        "AUTH default secret",
        "PING",
        "RESET",
        "HELLO 3 AUTH default secret SETNAME x",
        "CLIENT GETNAME",
    ):
        client.do(line)


def test_a_password_that_changes(stage: Stage) -> None:
    boss = stage.enter()
    boss.do("CONFIG SET requirepass secret")
    outside, inside = stage.enter(protocol=2), stage.enter(protocol=2)
    inside.do("AUTH secret")
    boss.do("CONFIG SET requirepass other")
    inside.do("PING")
    outside.do("AUTH secret")
    boss.do("CONFIG SET requirepass")
    outside.do("PING")
    boss.same("CONFIG", "SET", "requirepass", "")
    outside.do("PING")
    outside.do("AUTH x")
    boss.do("CONFIG SET requirepass third")
    outside.do("PING")
    outside.do("QUIT")
    assert outside.same_end() == b""


def test_little_is_read_before_the_password(stage: Stage) -> None:
    boss = stage.enter()
    boss.do("CONFIG SET requirepass secret")
    for sent in (b"*11\r\n", b"*1\r\n$16385\r\n", b"*10\r\n$16384\r\n", b"*2\r\n$4\r\nAUTH\r\n"):
        client = stage.enter(protocol=2)
        client.send(sent)
        if sent in (b"*11\r\n", b"*1\r\n$16385\r\n"):
            assert client.same_end().startswith(b"-ERR Protocol error: unauthenticated")
        else:
            boss.do("PING")
            assert client.is_quiet()


# -- replies that do not come ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        "CLIENT REPLY OFF / PING / NOPE / CLIENT REPLY SKIP / PING / CLIENT REPLY ON / PING",
        "CLIENT REPLY SKIP / PING / ECHO 1",
        "CLIENT REPLY SKIP / NOPE / ECHO 1",
        "CLIENT REPLY SKIP / CLIENT REPLY ON / ECHO 1",
        "CLIENT REPLY SKIP / CLIENT REPLY SKIP / ECHO 1 / ECHO 2",
        "CLIENT REPLY SKIP / CLIENT REPLY OFF / ECHO 1 / CLIENT REPLY ON / ECHO 2",
        "CLIENT REPLY SKIP / CLIENT REPLY x / ECHO 1",
        "CLIENT REPLY SKIP / MULTI / ECHO 1 / EXEC",
        "CLIENT REPLY OFF / MULTI / ECHO 1 / EXEC / CLIENT REPLY ON",
        "CLIENT REPLY OFF / RESET / PING",
        "CLIENT REPLY SKIP / RESET / PING",
    ],
)
def test_reply_modes(stage: Stage, lines: str) -> None:
    client = stage.enter()
    client.send("".join(f"{line}\r\n" for line in lines.split(" / ")).encode())
    client.send(b"CLIENT REPLY ON\r\nQUIT\r\n")
    client.same_end()


def test_quit_is_heard_also_when_it_is_not_answered(stage: Stage) -> None:
    client = stage.enter().ours  # redis-server waits for a reply to close after, for ever
    client.send(b"CLIENT REPLY OFF\r\nQUIT\r\n")
    assert client.read_until_closed() == b""


# -- other clients --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        "CLIENT KILL ID #",
        "CLIENT KILL ID # TYPE normal",
        "CLIENT KILL ID # TYPE normal USER default SKIPME yes",
        "CLIENT KILL ID # TYPE pubsub",
        "CLIENT KILL ID # ADDR 127.0.0.1:1",
        "CLIENT KILL ID 999999999 ID #",
    ],
)
def test_killing_another(stage: Stage, how: str) -> None:
    killer, victim = stage.enter(), stage.enter()
    if killer.same_about(victim.ids(), *how.split()) == b":1\r\n":
        assert victim.same_end() == b""
    else:
        victim.do("PING")


def test_killing_oneself(stage: Stage) -> None:
    client = stage.enter()
    client.same_about(client.ids(), "CLIENT", "KILL", "ID", "#")
    client.same_about(client.ids(), "CLIENT", "KILL", "ID", "#", "SKIPME", "no")
    assert client.same_end() == b""


def test_killing_by_address(stage: Stage) -> None:
    killer, victim = stage.enter(), stage.enter()
    victim.do("PING")  # it is known to both
    for server_side in ("ours", "oracle"):
        mine, other = getattr(killer, server_side), getattr(victim, server_side)
        address = "{}:{}".format(*other._sock.getsockname())
        assert mine.command("CLIENT", "KILL", address) == b"+OK\r\n"
        assert mine.command("CLIENT", "KILL", address) == b"-ERR No such client\r\n"
        address = "{}:{}".format(*mine._sock.getsockname())
        assert mine.command("CLIENT", "KILL", "ADDR", address, "SKIPME", "yes") == b":0\r\n"
        assert mine.command("CLIENT", "KILL", address) == b"+OK\r\n"
    assert victim.same_end() == b""
    assert killer.same_end() == b""


def test_nothing_behind_ones_own_death_runs(stage: Stage) -> None:
    client, other = stage.enter(), stage.enter()
    ours, oracle = client.ids()
    client.ours.send(b"CLIENT KILL ID %d SKIPME no\r\nSET k v\r\n" % ours)
    client.oracle.send(b"CLIENT KILL ID %d SKIPME no\r\nSET k v\r\n" % oracle)
    assert client.same_end() == b":1\r\n"
    other.do("GET k")


def test_killing_a_client_that_waits(stage: Stage) -> None:
    killer, victim = stage.enter(), stage.enter()
    ids = victim.ids()
    victim.send_command("BLPOP", "k", 0)
    killer.wait_for_blocked(1)
    killer.same_about(ids, "CLIENT", "KILL", "ID", "#")
    assert victim.same_end() == b""
    killer.do("RPUSH k v")
    killer.do("LLEN k")


@pytest.mark.parametrize("reason", ["", "ERROR", "error", "TIMEOUT"])
def test_unblocking(stage: Stage, reason: str) -> None:
    waiter, other = stage.enter(), stage.enter()
    ids = waiter.ids()
    other.same_about(ids, "CLIENT", "UNBLOCK", "#")
    waiter.send_command("BLMOVE", "k", "l", "LEFT", "LEFT", 0)
    other.wait_for_blocked(1)
    assert other.same_about(ids, "CLIENT", "UNBLOCK", "#", *reason.split()) == b":1\r\n"
    waiter.same_reply()
    other.same_about(ids, "CLIENT", "UNBLOCK", "#")
    other.do("RPUSH k v")
    waiter.do("LLEN k")


def test_a_pause_holds_and_lets_go(stage: Stage) -> None:
    boss, client, watcher = stage.enter(), stage.enter(), stage.enter()
    boss.do("CLIENT PAUSE 100000 WRITE")
    client.do("GET k")
    client.send(b"SET k v\r\nGET k\r\nNOPE\r\n")
    watcher.wait_for_blocked(1)
    assert client.is_quiet()
    watcher.do("EXISTS k")
    watcher.do("MULTI")
    watcher.do("GET k")
    watcher.do("EXEC")
    boss.do("CLIENT UNPAUSE")
    for _ in range(3):
        client.same_reply()


# -- monitoring -----------------------------------------------------------------------------------


def test_commands_that_a_monitor_sees(stage: Stage) -> None:
    monitor, client = stage.enter(), stage.enter()
    monitor.do("MONITOR")
    script = (
        "PING / SET k v / SELECT 3 / get k / AUTH secret / AUTH default secret / NOPE / GET /"
        " HELLO 2 AUTH default secret SETNAME AUTH / MULTI / SET a 1 / SELECT 0 / CONFIG GET port /"
        " GET a / EXEC / EXEC / EXEC x / MULTI / DISCARD / MULTI / GET / EXEC / CLIENT ID x /"
        " CLIENT GETNAME / CLIENT LIST TYPE master / CONFIG GET nothing / LPUSH k x / WATCH k /"
        " UNWATCH / INCRBYFLOAT f 1 / GETEX k EX 10 / SETEX k 10 v / LPUSH l a b / LPOP l 1 /"
        " EVAL return(redis.call('INCR',KEYS[1])) 1 n a / EVAL return 1 / EVAL return 2 /"
        f" EVALSHA x 0 / EVAL_RO return(redis.pcall('SET','x',1)) 0 / EVALSHA {'0' * 40} 0 /"
        " EVAL return(redis.pcall('LPUSH','k',1)) 0 / EVAL return(redis.pcall('LPUSH','k')) 0 /"
        " FCALL f 0 / FCALL_RO f 0 / MULTI / EVAL return(redis.call('GET','n')) 0 / EXEC /"
        " SCRIPT LOAD return / RESET / ECHO last"
    )
    for line in script.split(" / "):
        if "GET port" in line:
            client.send_command(*line.split())
            client.same_reply()
        elif line == "EXEC":
            client.send_command(line)
            client.ours.read_reply(), client.oracle.read_reply()  # one of them shows its port
        else:
            client.do(line)
    client.same("SET", "k", b"\x00\x01\"\\\n\r\t\a\b\x7f\xff '")
    seen = b""
    while b"\\x7f" not in seen:
        seen = monitor.same_reply()


def test_commands_that_a_monitor_may_run(stage: Stage) -> None:
    monitor, client = stage.enter(), stage.enter()
    monitor.do("MONITOR")
    monitor.send(b"MONITOR\r\nPING\r\nGET k\r\nSET k v\r\nNOPE\r\nCLIENT INFO\r\n")
    for _ in range(7):
        monitor.same_reply()
    monitor.do("RESET")
    client.do("PING")
    monitor.do("GET k")
    monitor.do("CLIENT GETNAME")


def test_a_command_that_waits_is_shown_once(stage: Stage) -> None:
    monitor, waiter, client = stage.enter(), stage.enter(), stage.enter()
    waiter.send_command("BLPOP", "k", 0)
    client.wait_for_blocked(1)
    monitor.do("MONITOR")
    client.do("RPUSH k v")
    waiter.same_reply()
    client.do("ECHO last")
    shown = [monitor.same_reply(), monitor.same_reply()]
    assert shown == [b'+# [0 #] "RPUSH" "k" "v"\r\n', b'+# [0 #] "ECHO" "last"\r\n']
    waiter.send_command("BLPOP", "k", 0)
    monitor.same_reply()


# -- hanging up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"POST / HTTP/1.1\r\n", b"host: x\r\n", b"MULTI\r\nHost: x\r\n"])
def test_a_browser_is_hung_up_on(stage: Stage, line: bytes) -> None:
    client = stage.enter(protocol=2)
    client.send(line + b"SET k v\r\n")
    client.ours.read_until_closed()
    client.oracle.read_until_closed()
    stage.enter().do("GET k")


def test_quit_answers_what_came_before(stage: Stage) -> None:
    client = stage.enter()
    client.send(b"PING\r\nECHO x\r\nQUIT now\r\nPING\r\n")
    assert client.same_end() == b"+PONG\r\n$1\r\nx\r\n+OK\r\n"


def test_masks_leave_what_must_be_equal() -> None:
    line = b"$30\r\nid=7 addr=127.0.0.1:5 name=x flags=N db=3 cmd=get\n\r\n"
    assert masked(line) == b"$#\r\nid=# addr=# name=x flags=N db=3 cmd=get\n\r\n"
