"""Users and their rights, byte for byte as in redis-server, also on indirect ways."""

import re
from collections.abc import Iterator

import pytest

from tests.harness import HoldfastServer, RedisServer
from tests.wire.play import play
from tests.wire.stage import Actor, Stage, open_stage

SUBCOMMANDS = (
    *("setuser", "deluser", "getuser", "list", "users", "whoami", "dryrun", "cat", "genpass"),
    *("log", "load", "save", "help"),
)


@pytest.fixture
def stage(server: HoldfastServer, oracle: RedisServer, protocol: int) -> Iterator[Stage]:
    with open_stage(server, oracle, protocol) as stage:
        cleaner = stage.enter()  # while it is let in
        cleaner.do("ACL LOG RESET")  # the oracle's log also has denials of other modules
        try:
            yield stage
        finally:
            for client in (cleaner.ours, cleaner.oracle):
                client.command("ACL", "DELUSER", "al", "bo")
                client.command("ACL", "SETUSER", "default", "on", "nopass", "+@all", "~*", "&*")


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_command_info(stage: Stage, name: str) -> None:
    stage.enter().same("COMMAND", "INFO", f"acl|{name}")


RULES = (
    "",
    "on",
    "on nopass",
    "on >a >b >a",
    ">a <a",
    "<a",
    ">a nopass",
    "nopass >a",
    "nopass resetpass",
    f"#{'a' * 64} !{'a' * 64}",
    f"#{'a' * 64} #{'b' * 64}",
    "#12",
    f"#{'A' * 64}",
    "!12",
    "ON OFF",
    "reset",
    "sanitize-payload",
    "skip-sanitize-payload",
    "~a ~b ~a %R~c %W~d %RW~e %wr~f",
    "%R~a %W~a",
    "%R~a %R~a",
    "~",
    "%",
    "%~a",
    "%X~a",
    "%RR~a",
    "%Ra",
    "allkeys",
    "~* ~a",
    "~* resetkeys ~a",
    "%RW~*",
    "&a &b &a",
    "&",
    "&* &a",
    "allchannels resetchannels &a",
    "+get",
    "+GET -Get",
    "+nope",
    "-nope",
    "+@nope",
    "+@",
    "+",
    "+@all",
    "allcommands",
    "+@all nocommands",
    "+@all -get",
    "+@all -replicaof",
    "-@all +cluster|info",
    "+@all -get +get",
    "+@all -@dangerous",
    "+@all -@write -@read",
    "+@hash",
    "+@HASH -hset",
    "+@string +@hash -hset",
    "+@read +@write +@connection +@pubsub",
    "+@all -config",
    "+@all -config|get",
    "+client",
    "+client -client|list",
    "+config",
    "+config -config|set",
    "+config|get",
    "+Config|GET",
    "+config|nope",
    "-config|nope",
    "+config|get|x",
    "+select|0 +select|1 +select|0",
    "+select|",
    "+select|0 +select",
    "+select|0 -select",
    "+select|0 -@connection",
    "-select|0",
    "+debug|OBJECT",
    "+@all +select|0",
    "(+get ~a)",
    "(+get  ~a  &c ) (-@all allkeys)",
    "(+get",
    "(+get ~a",
    "( +get )",
    "()",
    ")",
    "(+get on)",
    "((+get))",
    "(+get ~a) clearselectors (+set)",
    "(+get ~a) reset",
    "nope",
    "on off nope on",
)


@pytest.mark.parametrize("rules", RULES)
def test_rules(stage: Stage, rules: str) -> None:
    actor = stage.enter()
    actor.same("ACL", "SETUSER", "al", *rules.split(" "))
    actor.do("ACL GETUSER al")
    actor.do("ACL LIST")
    actor.do("ACL SETUSER al on >x +@all ~* &*")  # in addition to the existing rules
    actor.do("ACL GETUSER al")


def test_rules_with_blanks(stage: Stage) -> None:
    actor = stage.enter()
    for rule in ("~a b", "&a\tb", "%R~a b", '(+get "~a")', '(+get "~a b")', "~a\0b"):
        actor.same("ACL", "SETUSER", "al", rule)
        actor.do("ACL LIST")
    for name in ("a b", "a\0b", "", "a\nb"):
        actor.same("ACL", "SETUSER", name)
        actor.same("ACL", "DELUSER", name)


MISTAKES = (
    *("ACL", "ACL NOPE", "ACL WHOAMI x", "ACL GETUSER", "ACL GETUSER nope", "ACL CAT nope"),
    *("ACL CAT a b", "ACL GENPASS 0", "ACL GENPASS -1", "ACL GENPASS 4097", "ACL GENPASS x"),
    *("ACL GENPASS 1 2", "ACL LOG x", "ACL LOG -1", "ACL LOG 0", "ACL LOG 1 2", "ACL LOAD"),
    *("ACL SAVE", "ACL DELUSER", "ACL DELUSER default", "ACL DELUSER nope default"),
    *("ACL DELUSER nope no", "ACL DRYRUN nope get x", "ACL DRYRUN default nope"),
    *("ACL DRYRUN default get", "ACL DRYRUN default config nope", "ACL DRYRUN default config"),
    *("ACL DRYRUN default get x", "ACL SETUSER", "ACL CAT", "ACL USERS", "ACL WHOAMI"),
    *("AUTH x", "AUTH al x", "AUTH default x", "AUTH a b c", "HELLO 2 AUTH al x"),
    *("HELLO 2 AUTH al", "CLIENT KILL USER nope"),
)


def test_keys_that_stand_in_odd_places(stage: Stage) -> None:
    actor = stage.enter()
    actor.do("ACL SETUSER al on +@all %R~r* %W~w* %RW~b*")
    for call in (
        *("EVAL {} 3 b b", "EVAL {} 3 b r", "EVAL {} -1 r", "EVAL {} 0 r", "EVAL_RO {} 1 r"),
        *("MIGRATE h 1 {} 0 9", "MIGRATE h 1 {} 0 9 COPY", "SORT r STORE {}"),
    ):
        for key in ("b", "r", "w"):
            actor.do(f"ACL DRYRUN al {call.format(key)}")
    for options in (
        "",
        "COPY",
        "AUTH KEYS",
        "AUTH2 KEYS p",
        "AUTH2 u KEYS",
        "replace auth2 keys p",
    ):
        for key in ("b", "r", "w"):
            words = f"MIGRATE h 1 x 0 9 {options} KEYS {key}".split()
            actor.same("ACL", "DRYRUN", "al", *["" if word == "x" else word for word in words])
    actor.do("ACL DELUSER al")


@pytest.mark.parametrize("line", MISTAKES)
def test_answers(stage: Stage, line: str) -> None:
    stage.enter().do(line)


def test_generated_passwords(stage: Stage) -> None:
    actor = stage.enter()
    for bits in ((), ("1",), ("4",), ("5",), ("8",), ("256",), ("4096",)):
        actor.send_command("ACL", "GENPASS", *bits)
        ours, oracle = actor.ours.read_reply(), actor.oracle.read_reply()
        assert re.fullmatch(rb"\$\d+\r\n[0-9a-f]+\r\n", ours)
        assert len(ours) == len(oracle)
    assert actor.ours.command("ACL", "GENPASS") != actor.ours.command("ACL", "GENPASS")


@pytest.mark.parametrize("category", ["hash", "list", "string", "TRANSACTION"])
def test_commands_of_a_category(stage: Stage, category: str) -> None:
    actor = stage.enter()
    actor.send_command("ACL", "CAT", category)
    ours, oracle = (set(c.read_reply().split(b"\r\n")[2::2]) for c in (actor.ours, actor.oracle))
    assert {name for name in ours if not name.startswith(b"hp") or name in oracle} >= oracle


# -- denied commands ------------------------------------------------------------------------------

SCRIPTS = {
    "commands": "a: ACL SETUSER al on >p +@all -@dangerous -get -client|setname ~* &* / "
    "u: AUTH al p / u: GET k / u: SET k v / u: KEYS * / u: CONFIG GET x / u: CONFIG NOPE / "
    "u: CONFIG / u: CLIENT SETNAME x / u: CLIENT ID x / u: NOPE / u: GET / u: ACL WHOAMI / "
    "u: FLUSHALL / a: ACL SETUSER al +get / u: GET k",
    "almost nothing": "a: ACL SETUSER al on >p / u: AUTH al p / u: PING / u: GET k / u: MULTI / "
    "u: EXEC / u: HELLO / u: AUTH al x / u: AUTH al p / u: RESET / u: GET k",
    "keys": "a: ACL SETUSER al on >p +@all ~a* %R~r* %W~w* %RW~x / u: AUTH al p / u: GET a / "
    "u: GET b / u: GET r1 / u: SET r1 v / u: SET w1 v / u: GET w1 / u: STRLEN w1 / "
    "u: SET w1 v GET / u: SET a v GET / u: SET w1 get / u: APPEND w1 v / u: COPY r1 w1 / "
    "u: COPY w1 r1 / u: MGET a b / u: MSET a 1 b 2 / u: DEL a b / u: DEL w1 / u: RENAME r1 a / "
    "u: RENAME w1 a / u: BITFIELD r1 GET u8 0 / u: BITFIELD r1 SET u8 0 1 / u: LMOVE a b LEFT LEFT"
    " / u: LMPOP 2 a b LEFT / u: LMPOP 1 a LEFT / u: EXISTS zz / u: TYPE zz / u: OBJECT ENCODING q"
    " / u: GET x / u: SET x 1 / u: KEYS a / u: DBSIZE / u: SINTERCARD 2 a b / u: ZUNION 1 b / "
    "u: ZUNIONSTORE w1 1 r1 / u: ZUNIONSTORE r1 1 r1 / u: ZUNIONSTORE w1 1 w2",
    "sorting": "a: ACL SETUSER al on >p +@all ~a* %W~w / a: RPUSH a 2 1 / u: AUTH al p / "
    "u: SORT a / u: SORT a BY a* / u: SORT a BY nosort / u: SORT a GET y / u: SORT a STORE w / "
    "u: SORT a STORE x / u: SORT w / u: SORT_RO a GET a* / u: SORT a GET STORE BY x STORE x / "
    "a: ACL SETUSER al %R~* / u: SORT a BY w* GET y GET x*",
    "stores": "a: ACL SETUSER al on >p +@all ~a* / a: GEOADD a 1 1 m / u: AUTH al p / "
    "u: GEORADIUS a 1 1 9 km STORE b / u: GEORADIUS a 1 1 9 km STORE a2 / u: GEOSEARCHSTORE b a "
    "FROMMEMBER m BYRADIUS 1 km / u: ZUNIONSTORE b 1 a / u: XREAD STREAMS a1 b 0 0 / "
    "u: XREADGROUP GROUP g c STREAMS a1 b 0 0 / u: BITOP NOT b a1 / u: SMOVE a1 b m",
    "channels": "a: ACL SETUSER al on >p +@all ~* &c* &d / u: AUTH al p / u: PUBLISH c1 m / "
    "u: PUBLISH x m / u: SPUBLISH x m / u: SPUBLISH d m / u: SUBSCRIBE c1 d x / u: PSUBSCRIBE c1*"
    " / u: PSUBSCRIBE x / u: SSUBSCRIBE x / u: UNSUBSCRIBE x / u: PUNSUBSCRIBE x / "
    "u: SUNSUBSCRIBE x / u: SUBSCRIBE c1 d / u: PSUBSCRIBE c* / a: PUBLISH c1 m / a: PUBLISH x m /"
    " u: UNSUBSCRIBE c1 d / u: PUNSUBSCRIBE / u: PUBSUB CHANNELS",
    "selectors": "a: ACL SETUSER al on >p +get ~a (+set ~s &c) (+publish &p) (%R~r +@read) / "
    "u: AUTH al p / u: GET a / u: SET a 1 / u: SET s 1 / u: GET s / u: GET r / u: STRLEN r / "
    "u: STRLEN a / u: PUBLISH p m / u: PUBLISH c m / u: MGET a r / u: MGET r r / u: MSET s 1",
    "first arguments": "a: ACL SETUSER al on >p +select|0 +select|2 / u: AUTH al p / u: SELECT 0 / "
    "u: SELECT 1 / u: SELECT 2 / u: SELECT",
    "transactions": "a: ACL SETUSER al on >p +@all -get ~a &c / u: AUTH al p / u: MULTI / "
    "u: SET a 1 / u: GET a / u: EXEC / u: MULTI / u: SET b 1 / u: EXEC / u: MULTI / "
    "u: PUBLISH x 1 / u: EXEC / u: MULTI / u: SET a 1 / u: STRLEN a / u: EXEC / u: WATCH b / "
    "u: WATCH a / u: MULTI / u: WATCH b / u: EXEC",
    "rules that change in a transaction": "a: ACL SETUSER al on >p +@all ~* &* / u: AUTH al p / "
    "u: MULTI / u: SET a 1 / u: GET a / u: PUBLISH x 1 / u: STRLEN b / "
    "a: ACL SETUSER al -get resetkeys ~b resetchannels / u: EXEC / a: GET a",
    "without EXEC": "a: ACL SETUSER al on >p +@all -exec ~* / u: AUTH al p / u: MULTI / u: SET a 1"
    " / u: EXEC / u: GET a / a: ACL SETUSER al -multi / u: MULTI / u: DISCARD",
    "a transaction that makes itself weaker": "u: MULTI / u: ACL SETUSER default -get / u: GET a / "
    "u: SET a 1 / u: EXEC / u: ACL SETUSER default +get",
    "the default user": "a: ACL SETUSER al on >p +@all ~* &* / a: AUTH al p / "
    "a: ACL SETUSER default -get / u: GET k / u: SET k v / a: ACL SETUSER default +get / u: GET k",
    "the default user off": "a: ACL SETUSER al on >p +@all ~* &* / a: AUTH al p / u: PING / "
    "a: ACL SETUSER default off / u: PING / u: RESET / u: PING / u: AUTH x / u: AUTH default x / "
    "u: HELLO 2 / u: AUTH al p / u: PING / a: ACL SETUSER default on",
    "the default user's password": "u: PING / a: ACL SETUSER default >p / a: PING / u: PING / "
    "u: RESET / u: PING / u: AUTH x / u: AUTH p / u: PING / a: CONFIG GET requirepass / "
    "a: CONFIG SET requirepass q / a: ACL GETUSER default / u: RESET / u: AUTH p / u: AUTH q / "
    "a: CONFIG SET requirepass '' / a: ACL GETUSER default / u: RESET / u: PING",
    "passwords": "a: ACL SETUSER al on >p >q / u: AUTH al p / u: AUTH al q / u: AUTH al r / "
    "a: ACL SETUSER al <p / u: AUTH al p / u: AUTH al q / a: ACL SETUSER al nopass / "
    "u: AUTH al anything / a: ACL SETUSER al off / u: AUTH al q / u: ACL WHOAMI / "
    "a: ACL SETUSER al on resetpass / u: AUTH al q / u: HELLO 3 AUTH al q / "
    "a: ACL SETUSER al >x / u: HELLO 3 AUTH al x SETNAME n",
    "dry runs": "a: ACL SETUSER al on +@all -get ~a %R~r &c / a: ACL DRYRUN al get a / "
    "a: ACL DRYRUN al set b 1 / a: ACL DRYRUN al set a 1 / a: ACL DRYRUN al publish x m / "
    "a: ACL DRYRUN al psubscribe c* / a: ACL DRYRUN al set r 1 / a: ACL DRYRUN al mset a 1 b 2 / "
    "a: ACL DRYRUN al acl whoami / a: ACL DRYRUN al GETEX a / a: ACL DRYRUN al strlen b",
    "the log": "a: ACL LOG RESET / a: ACL SETUSER al on >p +@all -get -acl|list ~a &c / "
    "u: AUTH al x / u: AUTH nobody x / u: HELLO 2 AUTH al y / u: AUTH al p / u: GET a / u: GET a / "
    "u: SET b 1 / u: MSET a 1 z 2 / u: PUBLISH x m / u: ACL LIST / u: MULTI / u: GET a / u: EXEC / "
    "a: ACL LOG / a: ACL LOG 2 / a: ACL LOG reset / a: ACL LOG",
    "who is who": "a: ACL SETUSER al on >p +@all ~* / u: AUTH al p / u: CLIENT LIST ID #u / "
    "a: ACL USERS / a: CLIENT KILL USER nope / a: CLIENT KILL USER bo / u: RESET / u: ACL WHOAMI",
    "what comes later": "a: CONFIG SET acl-pubsub-default allchannels / a: ACL SETUSER al / "
    "a: ACL SETUSER al (+get) / a: ACL LIST / a: ACL SETUSER al reset / a: ACL LIST / "
    "a: CONFIG SET acl-pubsub-default resetchannels / a: ACL SETUSER al reset / a: ACL LIST",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_scripts(stage: Stage, script: str) -> None:
    play(stage, *script.split(" / "), leaves=("u",))  # a user that may lack the right to PING


SCRIPT_CALLS = (
    *("redis.call('get','a')", "redis.pcall('get','a')", "redis.call('set','b','1')"),
    *("redis.pcall('set','b','1')", "redis.call('publish','x','1')", "redis.call('set','a','1')"),
    *("redis.acl_check_cmd('get','a')", "redis.acl_check_cmd('set','a','1')"),
    *("redis.acl_check_cmd('set','b','1')", "redis.call('sort','a','get','b*')"),
)


@pytest.mark.parametrize("call", SCRIPT_CALLS)
def test_scripts_have_the_permissions_of_their_caller(stage: Stage, call: str) -> None:
    admin, user = stage.enter(), stage.enter()
    admin.do("ACL SETUSER al on >p +@all -get ~a &c")
    user.do("AUTH al p")
    user.same("EVAL", f"return {call}", 0)
    user.same("MULTI")
    user.same("EVAL", f"return {call}", 0)
    user.same("EXEC")
    user.same("EVAL", f"return {call}", 1, "b")
    admin.same("EVAL", f"return {call}", 0)
    admin.do("ACL LOG")


# -- connections that end -------------------------------------------------------------------------


@pytest.fixture
def two(stage: Stage) -> tuple[Actor, Actor]:
    """The administrator, and a user with all rights."""
    admin, user = stage.enter(), stage.enter()
    admin.do("ACL SETUSER al on >p +@all ~* &*")
    user.do("AUTH al p")
    return admin, user


def test_a_deleted_user_is_gone(two: tuple[Actor, Actor]) -> None:
    admin, user = two
    admin.do("ACL DELUSER al")
    user.same_end()


def test_a_user_that_deletes_itself_is_told(two: tuple[Actor, Actor]) -> None:
    _, user = two
    user.do("ACL DELUSER al nope")
    user.same_end()


def test_a_listener_to_a_channel_that_is_now_forbidden_is_disconnected(stage: Stage) -> None:
    admin = stage.enter()
    admin.do("ACL SETUSER al on >p +@all ~* &a &b &p*")
    listeners = [stage.enter() for _ in range(4)]
    for listener, line in zip(
        listeners, ("SUBSCRIBE a", "SUBSCRIBE b", "PSUBSCRIBE p*", "SSUBSCRIBE b"), strict=True
    ):
        listener.do("AUTH al p")
        listener.do(line)
    admin.do("ACL SETUSER al resetchannels &a &p")
    for gone in listeners[1:]:
        gone.same_end()
    admin.do("PUBLISH a m")
    listeners[0].same_reply()
    admin.do("ACL SETUSER al &a*")
    admin.do("PUBLISH a m")
    listeners[0].same_reply()


def test_killing_by_user(two: tuple[Actor, Actor]) -> None:
    admin, user = two
    admin.do("CLIENT KILL USER al")
    user.same_end()
