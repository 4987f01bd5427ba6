"""Client tracking: which client is told of which keys, when and how, as in redis-server."""

from collections.abc import Iterator

import pytest

from tests.harness import HoldfastServer, RedisServer
from tests.wire.play import play
from tests.wire.stage import Stage, open_stage


@pytest.fixture
def stage(server: HoldfastServer, oracle: RedisServer, protocol: int) -> Iterator[Stage]:
    with open_stage(server, oracle, protocol) as stage:
        yield stage


# Tracked in RESP3, with other clients in any protocol.
SCRIPTS = {
    "told once": "t: CLIENT TRACKING ON / t: GET k / w: SET k 1 / w: SET k 2",
    "told again after another look": "t: CLIENT TRACKING ON / t: GET k / w: SET k 1 / t: GET k / "
    "w: DEL k",
    "only of what was read": "t: CLIENT TRACKING ON / t: GET k / w: SET other 1 / w: LPUSH k x",
    "not of what was written": "t: CLIENT TRACKING ON / t: SET k 1 / t: INCR k / w: SET k 2",
    "of many keys": "t: CLIENT TRACKING ON / t: MGET a b c / w: MSET a 1 c 1 x 1 / w: DEL c b",
    "of a key that is not there": "t: CLIENT TRACKING ON / t: EXISTS a b / w: SET b 1",
    "in any database": "t: CLIENT TRACKING ON / t: GET k / w: SELECT 1 / w: SET k 1",
    "of the wrong type": "w: LPUSH k x / t: CLIENT TRACKING ON / t: GET k / w: DEL k",
    "a failed write tells nothing": "w: SET k x / t: CLIENT TRACKING ON / t: GET k / w: INCR k / "
    "w: LPUSH k x / w: SET k y NX / w: SET k z XX",
    "lists": "w: RPUSH l a b / t: CLIENT TRACKING ON / t: LRANGE l 0 -1 / w: LPOP l / t: LLEN l / "
    "w: LPOP l / t: LLEN l / w: RPUSH l x",
    "rename": "w: SET a 1 / t: CLIENT TRACKING ON / t: MGET a b / w: RENAME a b",
    "expire": "w: SET a 1 / t: CLIENT TRACKING ON / t: GET a / w: EXPIRE a 100 / t: TTL a / "
    "w: PERSIST a / t: GET a / w: EXPIRE a -1",
    "own writes come after the reply": "t: CLIENT TRACKING ON / t: GET k / t: SET k 1 / t: GET k / "
    "t: DEL k",
    "own transaction": "t: CLIENT TRACKING ON / t: GET k / t: MULTI / t: SET k 1 / t: GET k / "
    "t: DEL k / t: EXEC",
    "reads in a transaction": "t: CLIENT TRACKING ON / t: MULTI / t: GET a / t: GET b / t: EXEC / "
    "w: MSET a 1 b 1",
    "noloop": "t: CLIENT TRACKING ON NOLOOP / t: GET k / t: SET k 1 / w: SET k 2 / t: GET k / "
    "w: SET k 2",
    "two who track": "t: CLIENT TRACKING ON / u: CLIENT TRACKING ON NOLOOP / t: GET k / u: GET k / "
    "u: SET k 1 / u: FLUSHALL",
    "flushall": "t: CLIENT TRACKING ON / t: GET k / w: FLUSHALL / t: FLUSHALL / w: SET k 1",
    "flushdb": "t: CLIENT TRACKING ON / w: SELECT 1 / w: FLUSHDB / t: FLUSHDB",
    "flush with noloop": "t: CLIENT TRACKING ON NOLOOP / t: FLUSHALL",
    "off": "t: CLIENT TRACKING ON / t: GET k / t: CLIENT TRACKING OFF / w: SET k 1",
    "off twice": "t: CLIENT TRACKING OFF / t: CLIENT TRACKING ON / t: CLIENT TRACKING OFF / "
    "t: CLIENT TRACKING OFF / t: CLIENT TRACKINGINFO",
    "reset": "t: CLIENT TRACKING ON BCAST / t: RESET / t: CLIENT TRACKINGINFO / w: SET k 1",
    "optin": "t: CLIENT TRACKING ON OPTIN / t: GET a / t: CLIENT CACHING YES / t: GET b / "
    "t: GET c / w: MSET a 1 b 1 c 1",
    "optin with CLIENT in between": "t: CLIENT TRACKING ON OPTIN / t: CLIENT CACHING YES / "
    "t: CLIENT TRACKINGINFO / t: GET b / t: CLIENT TRACKINGINFO / w: SET b 1",
    "optin after a mistake": "t: CLIENT TRACKING ON OPTIN / t: CLIENT CACHING YES / t: GET / "
    "t: GET b / t: CLIENT CACHING YES / t: NOPE / t: GET c / t: CLIENT CACHING YES / "
    "t: PING / t: GET d / w: MSET b 1 c 1 d 1",
    "optin of a transaction": "t: CLIENT TRACKING ON OPTIN / t: CLIENT CACHING YES / t: MULTI / "
    "t: GET a / t: GET b / t: EXEC / t: GET c / w: MSET a 1 b 1 c 1",
    "optin inside a transaction": "t: CLIENT TRACKING ON OPTIN / t: MULTI / t: GET a / "
    "t: CLIENT CACHING YES / t: GET b / t: GET c / t: EXEC / t: GET d / w: MSET a 1 b 1 c 1 d 1",
    "optout": "t: CLIENT TRACKING ON OPTOUT / t: GET a / t: CLIENT CACHING NO / "
    "t: CLIENT TRACKINGINFO / t: GET b / t: GET c / w: MSET a 1 b 1 c 1",
    "caching mistakes": "t: CLIENT CACHING YES / t: CLIENT TRACKING ON / t: CLIENT CACHING YES / "
    "t: CLIENT CACHING NO / t: CLIENT CACHING x / t: CLIENT TRACKING ON OPTIN / "
    "t: CLIENT CACHING NO / t: CLIENT CACHING x / t: CLIENT TRACKING ON OPTIN / "
    "t: CLIENT TRACKING OFF / t: CLIENT TRACKING ON OPTOUT / t: CLIENT CACHING YES",
    "bcast": "t: CLIENT TRACKING ON BCAST / w: SET a 1 / w: SET a 2 / w: DEL b / w: DEL a / "
    "w: MSET c 1 b 1 a 1",
    "bcast with prefixes": "t: CLIENT TRACKING ON BCAST PREFIX a PREFIX b / w: SET a 1 / "
    "w: SET c 1 / w: MSET b2 1 bx 1 a2 1 c 1 / t: CLIENT TRACKINGINFO",
    "bcast one's own": "t: CLIENT TRACKING ON BCAST / t: SET a 1 / w: GET a / t: SET b 1",
    "bcast noloop": "t: CLIENT TRACKING ON BCAST NOLOOP / t: SET a 1 / w: SET b 1",
    "bcast of a transaction": "t: CLIENT TRACKING ON BCAST / w: MULTI / w: SET b 1 / w: SET a 1 / "
    "w: SET b 2 / w: EXEC",
    "bcast and flush": "t: CLIENT TRACKING ON BCAST PREFIX a / w: SET a 1 / w: FLUSHALL / "
    "t: FLUSHDB",
    "bcast ends": "t: CLIENT TRACKING ON BCAST / t: CLIENT TRACKING OFF / w: SET a 1",
    "more prefixes": "t: CLIENT TRACKING ON BCAST PREFIX a / "
    "t: CLIENT TRACKING ON BCAST PREFIX b / t: CLIENT TRACKINGINFO / w: SET a 1 / w: SET b 1",
    "overlapping prefixes": "t: CLIENT TRACKING ON BCAST PREFIX ab PREFIX a / "
    "t: CLIENT TRACKING ON BCAST PREFIX a PREFIX a / t: CLIENT TRACKING ON BCAST PREFIX ab / "
    "t: CLIENT TRACKING ON BCAST PREFIX x PREFIX abc / t: CLIENT TRACKING ON BCAST PREFIX a / "
    "t: CLIENT TRACKING ON BCAST PREFIX '' / t: CLIENT TRACKINGINFO / "
    "t: CLIENT TRACKING ON BCAST / t: CLIENT TRACKINGINFO",
    "prefix mistakes": "t: CLIENT TRACKING ON PREFIX a / t: CLIENT TRACKING ON PREFIX / "
    "t: CLIENT TRACKING OFF PREFIX a / t: CLIENT TRACKING ON BCAST OPTIN / "
    "t: CLIENT TRACKING ON BCAST OPTOUT / t: CLIENT TRACKING ON OPTIN OPTOUT / "
    "t: CLIENT TRACKING ON BCAST OPTIN OPTOUT",
    "switching": "t: CLIENT TRACKING ON / t: CLIENT TRACKING ON BCAST / "
    "t: CLIENT TRACKING ON OPTIN / t: CLIENT TRACKING ON OPTOUT / t: CLIENT TRACKING ON / "
    "t: CLIENT TRACKING ON OPTOUT / t: CLIENT TRACKINGINFO / "
    "t: CLIENT TRACKING ON OPTOUT BCAST / t: CLIENT TRACKING OFF / "
    "t: CLIENT TRACKING ON BCAST / t: CLIENT TRACKING ON / t: CLIENT TRACKINGINFO",
    "mistakes": "t: CLIENT TRACKING / t: CLIENT TRACKING x / t: CLIENT TRACKING ON x / "
    "t: CLIENT TRACKING ON REDIRECT / t: CLIENT TRACKING ON REDIRECT x / "
    "t: CLIENT TRACKING ON REDIRECT 999999 / t: CLIENT TRACKING x REDIRECT 999999 / "
    "t: CLIENT TRACKING ON REDIRECT #t REDIRECT #t / t: CLIENT TRACKING ON REDIRECT 0 / "
    "t: CLIENT TRACKING ON REDIRECT -1 / t: CLIENT TRACKING x NOLOOP / t: CLIENT TRACKINGINFO x",
    "redirect": "r: HELLO 3 / t: CLIENT TRACKING ON REDIRECT #r / t: GET k / w: SET k 1 / "
    "t: CLIENT TRACKINGINFO / w: FLUSHALL / t: GET k / t: SET k 1",
    "redirect to a subscriber": "r: HELLO 2 / r: SUBSCRIBE __redis__:invalidate / "
    "t: HELLO 2 / t: CLIENT TRACKING ON REDIRECT #r / t: GET k / w: SET k 1 / w: FLUSHALL",
    "redirect to somebody who does not listen": "r: HELLO 2 / t: CLIENT TRACKING ON REDIRECT #r / "
    "t: GET k / w: SET k 1 / r: SUBSCRIBE any / t: GET k / w: SET k 1 / r: UNSUBSCRIBE any / "
    "t: GET k / w: SET k 1",
    "redirect of bcast": "r: HELLO 2 / r: SUBSCRIBE __redis__:invalidate / "
    "t: CLIENT TRACKING ON BCAST REDIRECT #r / w: MSET b 1 a 1",
    "redirect that is gone": "r: PING / t: CLIENT TRACKING ON REDIRECT #r / t: GET k / "
    "w: CLIENT KILL ID #r / w: SET k 1 / t: CLIENT TRACKINGINFO / t: CLIENT INFO / "
    "t: GET k / w: SET k 1 / t: CLIENT TRACKING ON / t: CLIENT TRACKINGINFO / t: CLIENT INFO",
    "resp2 is told nothing": "t: HELLO 2 / t: CLIENT TRACKING ON / t: GET k / w: SET k 1 / "
    "t: HELLO 3 / t: GET k / w: SET k 2",
    "clients": "t: CLIENT INFO / t: CLIENT TRACKING ON / t: CLIENT INFO / t: CLIENT TRACKING OFF / "
    "t: CLIENT TRACKING ON BCAST / t: CLIENT INFO / t: SUBSCRIBE x / t: CLIENT INFO / "
    "t: CLIENT TRACKING OFF / t: CLIENT TRACKING ON REDIRECT #t / t: CLIENT INFO",
    "with notifications": "w: CONFIG SET notify-keyspace-events KEA / t: CLIENT TRACKING ON / "
    "t: PSUBSCRIBE __key* / t: GET k / w: SET k 1 / t: GET k / t: DEL k / t: GET k / w: LPUSH k x",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_scripts(stage: Stage, script: str) -> None:
    leaves = ("r",) if "CLIENT KILL" in script else ()
    play(stage, *script.split(" / "), protocols={"t": 3, "u": 3}, leaves=leaves)


@pytest.mark.parametrize("how", ["", "BCAST"])
def test_expired_keys_are_told(stage: Stage, how: str) -> None:
    tracker, other = stage.enter(protocol=3), stage.enter()
    tracker.same(*f"CLIENT TRACKING ON {how}".split())
    other.do("SET k v PX 30")
    if how:
        tracker.same_reply()  # of the SET itself
    else:
        for client in (tracker.ours, tracker.oracle):
            client.command("GET", "k")
    assert tracker.same_reply() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"


def test_a_woken_command_answers_before_it_tells(stage: Stage) -> None:
    tracker, other = stage.enter(protocol=3), stage.enter()
    other.do("RPUSH to x")
    tracker.do("CLIENT TRACKING ON")
    tracker.do("LRANGE to 0 -1")
    tracker.send_command("BLMOVE", "from", "to", "LEFT", "LEFT", 0)
    other.wait_for_blocked(1)
    other.do("RPUSH from y")
    assert tracker.same_reply() == b"$1\r\ny\r\n"
    assert tracker.same_reply() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n$2\r\nto\r\n"


def test_the_limit_of_the_table_is_no_change_of_ones_own(stage: Stage) -> None:
    """NOLOOP is about keys that the client itself has changed."""
    tracker = stage.enter(protocol=3)
    tracker.do("CLIENT TRACKING ON NOLOOP")
    tracker.do("GET k")
    tracker.do("GET l")
    tracker.do("CONFIG SET tracking-table-max-keys 1")
    for client in (tracker.ours, tracker.oracle):
        assert client.read_reply().startswith(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n")


def test_the_table_is_bounded(stage: Stage) -> None:
    """Which key goes is the server's choice; that one goes for each that is too many is not."""
    tracker, other = stage.enter(protocol=3), stage.enter()
    other.do("CONFIG SET tracking-table-max-keys 3")
    tracker.do("CLIENT TRACKING ON")
    for client in (tracker.ours, tracker.oracle):
        for number in range(10):
            client.send_command("GET", f"k{number}")
        client.send_command("PING")
        heard = [client.read_reply() for _ in range(10 + 7 + 1)]
        assert sum(reply.startswith(b">2\r\n$10\r\ninvalidate\r\n*1\r\n") for reply in heard) == 7
        assert client.is_quiet()


def test_a_lower_bound_takes_effect(stage: Stage) -> None:
    tracker, other = stage.enter(protocol=3).ours, stage.enter().ours
    tracker.command("CLIENT", "TRACKING", "ON")
    tracker.command("MGET", *[f"k{number}" for number in range(10)])
    assert b"tracking_total_keys:10\r\n" in other.command("INFO", "stats")
    other.command("CONFIG", "SET", "tracking-table-max-keys", 4)
    for number in range(6):
        assert b"k%d\r\n" % number in tracker.read_reply()
    assert b"tracking_total_keys:4\r\n" in other.command("INFO", "stats")


def test_numbers_in_info(stage: Stage) -> None:
    one, two, other = (stage.enter(protocol=3) for _ in range(3))
    one.do("CLIENT TRACKING ON")
    two.do("CLIENT TRACKING ON")
    for actor in (one, two):
        actor.do("MGET a b")
    one.do("GET c")
    three = stage.enter(protocol=3)
    three.do("CLIENT TRACKING ON BCAST PREFIX x PREFIX y")
    for client in (other.ours, other.oracle):
        info = client.command("INFO")
        for fact in (
            b"tracking_clients:3\r\n",
            b"tracking_total_keys:3\r\n",
            b"tracking_total_items:5\r\n",
            b"tracking_total_prefixes:2\r\n",
        ):
            assert fact in info
