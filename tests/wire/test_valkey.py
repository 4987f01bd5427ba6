"""Commands that redis-server 7 does not have, against valkey-server 9, byte for byte, in RESP2 and
RESP3. Where Redis 8 answers differently, Holdfast follows Redis: those replies are in
tests/commands, as documented. And the table of docs/commands.md against both servers.
"""

import re
import shlex

import pytest

from scripts.generate_docs import TARGET
from tests.harness import Pair, RawClient
from tests.wire.same import assert_same

SCENARIOS = {
    "fields with expiry": """
        HSETEX h FIELDS 2 a 1 b 2
        HSETEX h EX 100 FIELDS 2 b 3 c 4
        HTTL h FIELDS 4 a b c nope
        HSETEX h PXAT 33177117420000 FIELDS 1 d 5
        HPEXPIRETIME h FIELDS 1 d
        HSETEX h KEEPTTL FIELDS 2 d 6 a 7
        HPEXPIRETIME h FIELDS 2 d a
        HSETEX h FIELDS 1 d 8
        HPEXPIRETIME h FIELDS 1 d
        HSETEX h FNX FIELDS 2 e 1 a 1
        HSETEX h FNX EX 10 FIELDS 2 e 1 f 1
        HSETEX h FXX FIELDS 2 e 2 nope 2
        HSETEX h FXX EXAT 33177117420 FIELDS 2 e 2 f 2
        HSETEX missing FXX FIELDS 1 a 1
        EXISTS missing
        hsetex h fxx ex 10 fields 1 e 3
        HMGET h a b c d e f nope
        HGETEX h FIELDS 2 a nope
        HGETEX h EX 100 FIELDS 3 a nope b
        HTTL h FIELDS 2 a b
        HGETEX h PERSIST FIELDS 2 a b
        HTTL h FIELDS 2 a b
        HGETEX h PXAT 33177117420000 FIELDS 1 a
        HPEXPIRETIME h FIELDS 1 a
        HGETEX h EXAT 33177117420 FIELDS 1 a
        HEXPIRETIME h FIELDS 1 a
        HGETEX missing FIELDS 2 a b
        HGETEX h PXAT 1 FIELDS 2 a b
        HMGET h a b
        HGETDEL h FIELDS 2 c nope
        HGETDEL h FIELDS 2 d d
        HGETDEL missing FIELDS 2 c d
        HGETDEL h FIELDS 2 e f
        EXISTS h
        HSETEX h FIELDS 1 a 1
        HGETEX h EXAT 1 FIELDS 1 a
        EXISTS h
        SET s string
        HSETEX s FIELDS 1 a 1
        HGETEX s FIELDS 1 a
        HGETDEL s FIELDS 1 a
        HSETEX h
        HGETEX h FIELDS 1
        HGETDEL h FIELDS 1
    """,
    "slots of a server without cluster": """
        CLUSTER SLOT-STATS
        CLUSTER SLOT-STATS SLOTSRANGE
        CLUSTER SLOT-STATS SLOTSRANGE 0 16383
        CLUSTER SLOT-STATS SLOTSRANGE a b
        CLUSTER SLOT-STATS SLOTSRANGE 0 99999
        CLUSTER SLOT-STATS ORDERBY key-count
        cluster slot-stats orderby key-count LIMIT 10 DESC
        CLUSTER SLOT-STATS nope nope nope
        CLUSTER SLOT-STATSX SLOTSRANGE 0 1
        CLUSTER
    """,
    "set if equal": """
        SET k v IFEQ x
        EXISTS k
        SET k v
        SET k w IFEQ x
        SET k w IFEQ v
        GET k
        SET k x IFEQ w GET
        SET k y IFEQ nope GET
        SET k y ifeq x EX 100
        TTL k
        SET k z IFEQ y KEEPTTL
        TTL k
        SET k z IFEQ y NX
        SET k z XX IFEQ z
        SET k z IFEQ
        SET k 123 IFEQ z
        SET k 124 IFEQ 123
        RPUSH l a
        SET l v IFEQ a
        SET l v IFEQ a GET
        SET missing v IFEQ a GET
        SET k v IFEQ 124 EX 0
        GET k
    """,
    "remove if equal": """
        SET k v
        DELIFEQ k w
        DELIFEQ k v
        EXISTS k
        DELIFEQ k v
        RPUSH l a
        DELIFEQ l a
        DELIFEQ k
        DELIFEQ k v w
        SET n 12
        DELIFEQ n 012
        DELIFEQ n 12
    """,
    "set many with expiry": """
        MSETEX 2 a 1 b 2
        MGET a b
        MSETEX 2 a 1 b 2 EX 100
        TTL a
        MSETEX 2 a 3 b 4 KEEPTTL
        TTL b
        MSETEX 2 a 5 b 6
        TTL b
        MSETEX 2 a 7 c 7 NX
        EXISTS c
        MSETEX 2 a 7 c 7 XX PX 5000
        MSETEX 2 a 7 b 7 XX PXAT 33177117420000
        PEXPIRETIME a
        MSETEX 1 c 1 nx exat 33177117420
        EXPIRETIME c
        MGET a b c
        MSETEX 1 a 1 EXAT 1
        EXISTS a
        MSETEX 1 missing 1 PXAT 1
        EXISTS missing
        RPUSH l a
        MSETEX 1 l string
        TYPE l
        MSETEX
        MSETEX 1 a
        MSETEX 1 a 1 NX XX
        MSETEX 1 a 1 EX 1 PX 1
        MSETEX 1 a 1 EX
        MSETEX 1 a 1 EX x
        MSETEX 1 a 1 EX 0
        MSETEX 1 a 1 GET
        MSETEX 1 a 1 FOO
        MSETEX 1 a 1 IFEQ 1
        MSETEX 2 a 1 a 2
        GET a
    """,
    "polygon": """
        GEOADD Sicily 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
        GEOADD Sicily 12.758489 38.788135 edge1 17.241510 38.788135 edge2
        GEOSEARCH Sicily BYPOLYGON 4 12 37 16 37 16 39 12 39 WITHDIST
        GEOSEARCH Sicily BYPOLYGON 4 12 37 16 37 16 39 12 39 ASC WITHCOORD WITHDIST WITHHASH
        GEOSEARCH Sicily BYPOLYGON 4 12 37 16 37 16 39 12 39 DESC COUNT 2
        GEOSEARCH Sicily BYPOLYGON 4 12 37 16 37 16 39 12 39 COUNT 1 ANY
        GEOSEARCH Sicily BYPOLYGON 3 12 37 16 37 14 39
        GEOSEARCH Sicily BYPOLYGON 5 12 37 16 37 14 38 16 39 12 39
        GEOSEARCH Sicily BYPOLYGON 2 12 37 16 37 14 39
        GEOSEARCH Sicily BYPOLYGON x 12 37 16 37 14 39
        GEOSEARCH Sicily BYPOLYGON 4 12 37 16 37 14 39
        GEOSEARCH Sicily BYPOLYGON 3 12 37 16 37 14 139
        GEOSEARCH Sicily BYPOLYGON 3 12 37 16 37 14 x
        GEOSEARCH Sicily BYPOLYGON 3 12 37 16 37 14 39 BYRADIUS 1 km
        GEOSEARCH Sicily FROMLONLAT 15 37 BYRADIUS 1 km BYPOLYGON 3 12 37 16 37 14 39
        GEOSEARCH Sicily FROMLONLAT 15 37 BYPOLYGON 3 12 37 16 37 14 39
        GEOSEARCH Sicily FROMMEMBER Palermo BYPOLYGON 3 12 37 16 37 14 39
        GEOSEARCH Sicily BYPOLYGON 3 12 37 16 37 14 39 FROMMEMBER Palermo
        GEOSEARCH Sicily BYPOLYGON 3 12 37 16 37 14 39 km
        GEOSEARCH missing BYPOLYGON 3 12 37 16 37 14 39
        GEOSEARCHSTORE d Sicily BYPOLYGON 4 12 37 16 37 16 39 12 39
        ZRANGE d 0 -1
        GEOSEARCHSTORE d Sicily BYPOLYGON 4 12 37 16 37 16 39 12 39 STOREDIST
        ZRANGE d 0 -1
        GEOSEARCHSTORE d Sicily BYPOLYGON 3 12 37 12 37 12 37
        EXISTS d
        GEOSEARCH Sicily BYPOLYGON 3 12 37 14 38 16 39
        GEOSEARCH Sicily BYPOLYGON 4 -170 -80 170 -80 170 80 -170 80 WITHDIST
        GEOSEARCH Sicily BYPOLYGON 3 12 37 16 37 14 39 BYPOLYGON 4 12 37 16 37 16 39 12 39
    """,
    "clients": """
        CLIENT LIST USER nosuch
        CLIENT LIST USER default SKIPME yes
        CLIENT LIST SKIPME maybe
        CLIENT LIST SKIPME no TYPE pubsub
        CLIENT LIST MAXAGE x
        CLIENT LIST MAXAGE 0
        CLIENT LIST MAXAGE 100000
        CLIENT LIST IDLE x
        CLIENT LIST IDLE 0
        CLIENT LIST IDLE 100000
        CLIENT LIST FLAGS zz
        CLIENT LIST FLAGS b
        CLIENT LIST NAME nosuch
        CLIENT LIST NAME ""
        CLIENT LIST LIB-NAME ""
        CLIENT LIST LIB-VER ""
        CLIENT KILL NAME ""
        CLIENT KILL LIB-NAME ""
        CLIENT LIST LIB-NAME x LIB-VER y
        CLIENT LIST DB x
        CLIENT LIST DB 99
        CLIENT LIST DB 1
        CLIENT LIST CAPA x
        CLIENT LIST CAPA r
        CLIENT LIST IP 1.2.3.4
        CLIENT LIST NOT-IP 127.0.0.1
        CLIENT LIST NOT-TYPE normal
        CLIENT LIST NOT-DB 0
        CLIENT LIST NOT-USER default
        CLIENT LIST NOT-FLAGS N
        CLIENT LIST NOT-MAXAGE 5
        CLIENT LIST NOT-SKIPME yes
        CLIENT LIST NOT-DB x
        CLIENT LIST NOT-DB 99
        CLIENT LIST NOT-FLAGS zz
        CLIENT LIST NOT-CAPA x
        CLIENT LIST NOT-ID x
        CLIENT LIST NOT-ID 0
        CLIENT KILL NOT-ID x
        CLIENT LIST FOO 1
        CLIENT KILL DB 1
        CLIENT KILL IDLE 1000
        CLIENT KILL NAME foo FLAGS b
        CLIENT KILL IP 9.9.9.9
        CLIENT KILL NOT-IP 127.0.0.1
        CLIENT CAPA REDIRECT
        CLIENT CAPA foo bar
        CLIENT CAPA
        CLIENT IMPORT-SOURCE ON
    """,
    "logs and scripts": """
        COMMANDLOG LEN foo
        COMMANDLOG GET x slow
        COMMANDLOG GET 1 foo
        COMMANDLOG RESET SLOW
        COMMANDLOG RESET foo
        COMMANDLOG GET 1
        CONFIG SET commandlog-request-larger-than 50 commandlog-reply-larger-than -1
        COMMANDLOG RESET large-request
        SET k aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        GET k
        COMMANDLOG LEN large-request
        CONFIG SET commandlog-request-larger-than -1 commandlog-reply-larger-than 50
        COMMANDLOG RESET large-reply
        GET k
        COMMANDLOG LEN large-reply
        CONFIG SET commandlog-request-larger-than 1048576 commandlog-reply-larger-than 1048576
        SCRIPT LOAD "return 1"
        SCRIPT SHOW e0e1f9fabfc9d4800c877a703b823ac0578ff8db
        SCRIPT SHOW E0E1F9FABFC9D4800C877A703B823AC0578FF8DB
        SCRIPT SHOW nope
        SCRIPT SHOW
    """,
    "a cluster of one": """
        CLUSTER SLOT-STATS SLOTSRANGE 0 3
        CLUSTER MYSHARDID
        CLUSTER GETSLOTMIGRATIONS
        CLUSTER FLUSHSLOT 1
        CLUSTERSCAN 0
    """,
    "rules about databases": """
        ACL SETUSER u on nopass +@all ~* &* resetdbs db=3
        ACL SETUSER u db=x
        ACL SETUSER u db=
        ACL SETUSER u db=1,
        ACL SETUSER u db=-1
        ACL SETUSER u db=2147483648
        ACL SETUSER u DB=3,3
        ACL LIST
        ACL GETUSER u
        ACL SETUSER u resetdbs
        ACL LIST
        ACL SETUSER u db=2,3,1
        ACL LIST
        ACL SETUSER u db=3
        AUTH u x
        GET a
        PING
        DBSIZE
        SWAPDB 3 3
        SWAPDB 3 0
        SWAPDB x 3
        SELECT 3
        GET a
        SELECT 1
        MOVE a 1
        COPY a b DB 1
        SWAPDB 3 1
        FLUSHALL
        FLUSHDB
        MULTI
        SELECT 0
        GET x
        EXEC
        CONFIG GET maxmemory
        AUTH default ""
        ACL DELUSER u
    """,
}  # fmt: skip


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(valkey_pair: Pair, name: str) -> None:
    assert_same(valkey_pair, [line.strip() for line in SCENARIOS[name].strip().splitlines()])


def test_every_setting_of_the_command_log_is_shown(valkey_pair: Pair) -> None:
    names = [
        set(re.findall(rb"commandlog-[a-z-]+", client.command("CONFIG", "GET", "commandlog*")))
        for client in (valkey_pair.ours, valkey_pair.oracle)
    ]
    assert names[0] == names[1]
    assert len(names[0]) == 6


def test_command_info(valkey_pair: Pair) -> None:
    """Redis has other flags for the keys of HGETEX and HSETEX, so these are not compared. In RESP3
    the subcommands of a command that has none are a set in Redis 7, and an array in Valkey."""
    for name in (
        *("hsetex", "hgetex", "hgetdel", "msetex", "delifeq", "client|capa", "script|show"),
        *("commandlog|get", "commandlog|len", "commandlog|reset", "commandlog|help"),
        *("cluster|flushslot", "cluster|getslotmigrations", "cluster|migrateslots", "clusterscan"),
        *("cluster|cancelslotmigrations", "cluster|slot-stats", "cluster|syncslots"),
        *("cluster|myshardid", "client|import-source"),
    ):
        infos = [
            client.command("COMMAND", "INFO", name).replace(b"~", b"*")
            for client in (valkey_pair.ours, valkey_pair.oracle)
        ]
        if name in ("hgetex", "hsetex"):
            infos = [info.partition(b"+@fast")[0] for info in infos]
        assert infos[0] == infos[1], name


# -- the table of docs/commands.md --------------------------------------------------------------

# redis-server 7.0 or valkey-server 9 has another arity: why.
OTHER_ARITY = {
    "zrank": "Redis 7.2 added WITHSCORE",
    "zrevrank": "Redis 7.2 added WITHSCORE",
    "command|getkeys": "one argument less since Redis 7.2, with the same replies",
    "command|getkeysandflags": "one argument less since Redis 7.2, with the same replies",
    "script|debug": "Valkey has an argument for the engine; there is no debugger here",
    "cluster|replicate": "Valkey has an argument for nodes; there is no cluster here",
}


def documented() -> dict[str, int]:
    """Names and arities in docs/commands.md, and the names that it says are unknown here."""
    text = TARGET.read_text()
    rows = re.findall(r"^\| ([A-Z][A-Z0-9 _.-]*) \| (-?\d+) \|", text, re.MULTILINE)
    return {name.lower().replace(" ", "|"): int(arity) for name, arity in rows}


def unknown_here() -> set[str]:
    section = TARGET.read_text().partition("\nUnknown here")[2].partition("\n## ")[0]
    return {name.lower().replace(" ", "|") for name in re.findall(r"`([A-Z0-9 _.]+)`", section)}


def commands_of(client: RawClient) -> dict[str, int]:
    """Names and arities of COMMAND, subcommands included."""
    reply = client.command("COMMAND").decode("latin-1")
    found = re.findall(r"\*10\r\n\$\d+\r\n([a-z0-9_|-]+)\r\n:(-?\d+)\r\n", reply)
    return {name: int(arity) for name, arity in found}


def disagreements(theirs: dict[str, int]) -> dict[str, str]:
    ours, unknown = documented(), unknown_here()
    found = {}
    for name, arity in theirs.items():
        if name not in ours:
            if name not in unknown:
                found[name] = "is not in docs/commands.md"
        elif ours[name] != arity and name not in OTHER_ARITY:
            found[name] = f"has arity {arity}, not {ours[name]}"
    return found


def test_the_table_has_every_command_of_valkey(valkey_pair: Pair) -> None:
    theirs = commands_of(valkey_pair.oracle)
    assert {"hsetex", "client|kill", "commandlog|get"} <= theirs.keys()
    assert disagreements(theirs) == {}


def test_the_table_has_every_command_of_redis(pair: Pair) -> None:
    theirs = commands_of(pair.oracle)
    assert {"get", "client|kill", "restore-asking"} <= theirs.keys()
    assert disagreements(theirs) == {}


def test_the_table_is_what_the_server_has(pair: Pair) -> None:
    ours = {name: arity for name, arity in commands_of(pair.ours).items() if "active" not in name}
    assert documented() == ours
    assert not unknown_here() & ours.keys()


def documented_since(product: str) -> dict[str, str]:
    """The versions in docs/commands.md, of the commands that this product had first."""
    prefix = "" if product == "Redis" else f"{product} "
    row = rf"^\| ([A-Z][A-Z0-9 _.-]*) \| -?\d+ \| {prefix}([\d.]+) \|"
    rows = re.findall(row, TARGET.read_text(), re.MULTILINE)
    return {name.lower().replace(" ", "|"): since for name, since in rows}


def since_of(client: RawClient) -> dict[str, str]:
    """The versions of COMMAND DOCS, subcommands included."""
    reply = client.command("COMMAND", "DOCS").decode("latin-1")
    name = r"\$\d+\r\n([a-z0-9_|-]+)\r\n[*%]\d+\r\n\$7\r\nsummary\r\n\$\d+\r\n.*?"
    found = re.findall(name + r"\$5\r\nsince\r\n\$\d+\r\n([\d.]+)\r\n", reply, re.DOTALL)
    return dict(found)


def test_the_table_has_the_versions_of_valkey(valkey_pair: Pair) -> None:
    ours, theirs = documented_since("Valkey"), since_of(valkey_pair.oracle)
    assert len(ours) > 10
    assert ours.items() <= theirs.items()


def test_the_table_has_the_versions_of_redis(pair: Pair) -> None:
    """And nothing that redis-server 7.0 does not have is said to be so old."""
    ours, theirs = documented_since("Redis"), since_of(pair.oracle)
    old = {
        name: since
        for name, since in ours.items()
        if tuple(map(int, since.split("."))) < (7, 0, 16)
    }
    assert len(old) > 300
    assert old == theirs


def test_a_disagreement_is_found() -> None:
    assert disagreements({"get": 3, "nosuch": 1, "hset": -4, "vadd": -5}) == {
        "get": "has arity 3, not 2",
        "nosuch": "is not in docs/commands.md",
    }


def test_scenarios_are_commands() -> None:
    for scenario in SCENARIOS.values():
        assert all(shlex.split(line) for line in scenario.strip().splitlines())
