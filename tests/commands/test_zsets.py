"""The events of commands on sorted sets and places; a refused command changes nothing. tests/wire
compares the replies."""

import pytest

from tests.commands.listening import Listening, published
from tests.harness import RedisServer

START = [
    "ZADD k 1 a 2 b 3 c",
    "ZADD one 1 x",
    "SADD set a z",
    "SET s v",
    "GEOADD g 13 38 p 15 37 q",
]
CHANGES = [
    "ZADD new 1 a 2 b",
    "ZADD k 1 a",
    "ZADD k 9 a 8 z",
    "ZADD k NX 9 a",
    "ZADD k XX 9 z",
    "ZADD k INCR 1 a",
    "ZADD k INCR 0 a",
    "ZADD new XX 1 a",
    "ZADD k GT 0 a",
    "ZADD s 1 a",
    "ZINCRBY k 1 a",
    "ZINCRBY k 0 a",
    "ZINCRBY new 1 a",
    "ZREM k a b",
    "ZREM k z",
    "ZREM one x",
    "ZREMRANGEBYRANK k 0 0",
    "ZREMRANGEBYRANK k 0 -1",
    "ZREMRANGEBYRANK k 7 9",
    "ZREMRANGEBYSCORE k 2 3",
    "ZREMRANGEBYSCORE one 0 9",
    "ZREMRANGEBYSCORE k 7 9",
    "ZREMRANGEBYLEX one - +",
    "ZREMRANGEBYLEX one (x +",
    "ZREMRANGEBYLEX new - +",
    "ZPOPMIN k",
    "ZPOPMAX k 2",
    "ZPOPMIN k 0",
    "ZPOPMIN one",
    "ZPOPMAX new",
    "ZPOPMIN k 9",
    "ZMPOP 2 new k MIN",
    "ZMPOP 1 one MAX COUNT 5",
    "BZPOPMIN new k 0",
    "BZPOPMAX one 0",
    "BZMPOP 0 1 k MAX COUNT 2",
    "ZUNIONSTORE new 2 k set",
    "ZUNIONSTORE k 2 k one",
    "ZUNIONSTORE s 1 k",
    "ZUNIONSTORE s 1 new",
    "ZUNIONSTORE new 1 new",
    "ZINTERSTORE one 2 k k",
    "ZINTERSTORE k 2 k one",
    "ZDIFFSTORE new 2 k one",
    "ZDIFFSTORE k 2 k k",
    "ZRANGESTORE new k 0 0",
    "ZRANGESTORE k k 0 0",
    "ZRANGESTORE one k 7 9",
    "ZRANGESTORE new k 7 9",
    "ZRANGESTORE s new 0 1",
    "ZUNION 2 k new",
    "ZINTERCARD 2 k new",
    "ZRANGE new 0 1",
    "ZRANK k a",
    "ZSCORE new a",
    "ZSCAN new 0",
    "GEOADD g 13 38 p",
    "GEOADD g 14 38 p",
    "GEOADD new 14 38 p",
    "GEOADD new XX 14 38 p",
    "GEOSEARCHSTORE new g FROMLONLAT 13 38 BYRADIUS 1 km",
    "GEODIST new a b",
    "GEOSEARCHSTORE one g FROMLONLAT 83 38 BYRADIUS 1 km",
    "GEOPOS new a",
    "GEOHASH new a",
    "GEOSEARCHSTORE one new FROMLONLAT 83 38 BYRADIUS 1 km",
    "GEORADIUS new 1 1 1 km",
    "GEORADIUS g 13 38 1 km STORE s",
    "GEORADIUSBYMEMBER g p 1 km STOREDIST g",
]


@pytest.mark.oracle
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_announced_as_redis_does(loud_oracle: RedisServer, change: str) -> None:
    commands = [*START, change]
    assert Listening().announce(commands) == published(loud_oracle, commands)


REFUSED = [
    "ZADD s 1 a",
    "ZADD k 1 a x b",
    "ZADD k 1 a 2",
    "ZADD k NX XX 1 a",
    "ZADD k INCR 1 a 2 b",
    "ZINCRBY k nan a",
    "ZINCRBY s 1 a",
    "ZREM s a",
    "ZREMRANGEBYRANK k 0 x",
    "ZPOPMIN k -1",
    "ZREMRANGEBYSCORE k 0 x",
    "ZREMRANGEBYLEX k a b",
    "ZPOPMIN s",
    "ZMPOP 1 k MID",
    "ZMPOP 2 s k MIN",
    "BZPOPMIN k never",
    "BZPOPMIN s k 0",
    "BZPOPMAX k -1",
    "BZMPOP never 1 k MIN",
    "ZUNIONSTORE new 2 k s",
    "ZUNIONSTORE new 1 k NOPE",
    "ZUNIONSTORE new 0 k",
    "ZINTERSTORE k 9 k",
    "ZDIFFSTORE new 1 s",
    "ZRANGESTORE new s 0 1",
    "ZRANGESTORE new k 0 x",
    "GEOADD g 1 1 a 999 1 b",
    "GEOADD s 1 1 a",
    "GEOSEARCHSTORE new g FROMMEMBER nobody BYRADIUS 1 m",
    "GEORADIUS s 1 1 1 m",
    "GEORADIUS g 1 1 1 m STORE new WITHDIST",
    "GEORADIUS g 1 1 -1 m STORE new",
]


@pytest.mark.parametrize("refused", REFUSED)
def test_a_refused_command_changes_nothing(refused: str) -> None:
    ours = Listening()
    ours.announce(START)
    ops = len(ours.engine.keyspace.ops)
    peer = ours.peer()
    peer.send(*refused.split())
    assert len(ours.engine.keyspace.ops) == ops
    assert ours.events() == []
    (reply,) = peer.replies()
    assert reply[:1] == b"-"
