"""Places against redis-server, byte for byte: digits, order and errors.

A scenario is a text: one command a line, words as a shell would split them.
"""

import random
import shlex
from collections.abc import Iterator

import pytest

from tests.harness import Pair
from tests.harness.rawclient import Argument
from tests.wire.same import assert_same

GEO_COMMANDS = (
    *("geoadd", "geodist", "geohash", "geopos", "geosearch", "geosearchstore"),
    *("georadius", "georadius_ro", "georadiusbymember", "georadiusbymember_ro"),
)

SICILY = "GEOADD k 13.361389 38.115556 Palermo 15.087269 37.502669 Catania 12.75 37.6 Mazara"

SCENARIOS = {
    "add": """
        GEOADD k 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
        GEOADD k 13.361389 38.115556 Palermo
        GEOADD k CH 13.4 38.115556 Palermo 0 0 zero
        GEOADD k NX 1 1 Palermo 1 1 new
        GEOADD k XX CH 1 1 Palermo 1 1 nobody
        GEOADD k NX XX 1 1 a
        GEOADD missing XX 1 1 a
        EXISTS missing
        ZRANGE k 0 -1 WITHSCORES
        GEOADD k 180 85.05112878 ne -180 -85.05112878 sw 180 -85.05112878 se -180 85.05112878 nw
        GEOPOS k ne sw se nw
        GEOADD k 180.00001 0 a
        GEOADD k -181 0 a
        GEOADD k 0 85.06 a
        GEOADD k 0 -86 a
        GEOADD k 1e300 0 a
        GEOADD k inf 0 a
        GEOADD k 0 -inf a
        GEOADD k nan 0 a
        GEOADD k x 0 a
        GEOADD k 0 x a
        GEOADD k 0 0 a 1 x b
        GEOADD k 0 0
        GEOADD k 0 0 a 1
        GEOADD k CH 0 0
        GEOADD k CH CH CH
        GEOADD k INCR 0 0 a
        GEOADD k GT 0 0 a
        SET s string
        GEOADD s 0 0 a
        GEOADD s x 0 a
        TYPE k
    """,
    "ask": SICILY
    + """
        GEOADD far 2.584753822443048 32.78604208347872 a 135.33169584132793 15.653320178221364 b
        GEODIST far a b ft
        GEOSEARCH far FROMMEMBER a BYRADIUS 1e9 ft ASC WITHDIST
        GEODIST k Palermo Catania
        GEODIST k Palermo Catania m
        GEODIST k Palermo Catania KM
        GEODIST k Palermo Catania ft
        GEODIST k Palermo Catania Mi
        GEODIST k Palermo Palermo
        GEODIST k Palermo nobody
        GEODIST missing a b
        GEODIST k Palermo Catania miles
        GEODIST missing a b miles
        GEODIST k Palermo Catania m x
        GEOHASH k Palermo Catania nobody
        GEOHASH k
        GEOHASH missing a b
        GEOPOS k Palermo Catania nobody
        GEOPOS k
        GEOPOS missing a b
        ZADD k 0 zero -1 minus 1.5 some 1e30 huge inf endless -inf minusendless
        GEOPOS k zero minus some huge endless minusendless
        GEOHASH k zero minus some huge endless minusendless
        SET s string
        GEODIST s a b
        GEODIST s a b miles
        GEOHASH s a
        GEOPOS s a
    """,
    "search": SICILY
    + """
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km ASC
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km DESC WITHDIST
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km WITHCOORD WITHHASH WITHDIST ASC
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km COUNT 1
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km COUNT 1 ANY
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km COUNT 2 DESC
        GEOSEARCH k FROMMEMBER Palermo BYBOX 300 100 km ASC
        GEOSEARCH k FROMMEMBER Palermo BYBOX 400 400 mi ASC WITHDIST
        GEOSEARCH k FROMMEMBER Palermo BYRADIUS 0 m
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS inf m ASC
        GEOSEARCH k FROMLONLAT 15 37 BYBOX inf inf m
        GEOSEARCH k FROMLONLAT 100 -37 BYRADIUS 200 km
        GEOSEARCH k FROMLONLAT 100 -37 BYRADIUS 200 km WITHDIST
        GEOSEARCH missing FROMLONLAT 15 37 BYRADIUS 200 km
        GEOSEARCH missing FROMMEMBER nobody BYRADIUS 200 km
        GEOSEARCH missing FROMMEMBER nobody BYRADIUS x km
        GEOSEARCH k FROMMEMBER nobody BYRADIUS 200 km
        GEOSEARCH k FROMMEMBER nobody BYRADIUS x km
        GEOSEARCH k FROMLONLAT 15 37 FROMMEMBER Palermo BYRADIUS 200 km
        GEOSEARCH k FROMMEMBER Palermo FROMLONLAT 15 37 BYRADIUS 200 km
        GEOSEARCH k FROMMEMBER Palermo FROMMEMBER Catania BYRADIUS 10 km
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km BYBOX 1 1 m
        GEOSEARCH k FROMLONLAT 15 37 BYBOX 200 200 km BYRADIUS 1 m
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 1 m BYRADIUS 200 km
        GEOSEARCH k FROMLONLAT 15 37 ASC ASC
        geoSearch k BYRADIUS 200 km ASC ASC
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km ANY
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km COUNT 0
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km COUNT -1
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km COUNT x
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km COUNT
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km STORE to
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 km NOPE
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS -1 km
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS x km
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS 200 miles
        GEOSEARCH k FROMLONLAT 15 37 BYRADIUS -1 miles
        GEOSEARCH k FROMLONLAT 15 37 BYBOX x 1 km
        GEOSEARCH k FROMLONLAT 15 37 BYBOX 1 x km
        GEOSEARCH k FROMLONLAT 15 37 BYBOX -1 1 km
        GEOSEARCH k FROMLONLAT 15 37 BYBOX 1 1 miles
        GEOSEARCH k FROMLONLAT 190 37 BYRADIUS 200 km
        GEOSEARCH k FROMLONLAT x 37 BYRADIUS 200 km
        GEOSEARCH k FROMLONLAT 15 BYRADIUS 200 km
        SET s string
        GEOSEARCH s FROMLONLAT 15 37 BYRADIUS 200 km
        GEOSEARCH s NOPE 15 37 BYRADIUS 200 km
    """,
    "store what was found": SICILY
    + """
        GEOSEARCHSTORE to k FROMLONLAT 15 37 BYRADIUS 200 km
        ZRANGE to 0 -1 WITHSCORES
        GEOSEARCHSTORE to k FROMLONLAT 15 37 BYRADIUS 200 km STOREDIST
        ZRANGE to 0 -1 WITHSCORES
        GEOSEARCHSTORE to k FROMLONLAT 15 37 BYBOX 400 400 mi ASC COUNT 1
        ZRANGE to 0 -1 WITHSCORES
        GEOSEARCHSTORE to k FROMLONLAT 100 37 BYRADIUS 1 km
        EXISTS to
        SET to string
        GEOSEARCHSTORE to missing FROMLONLAT 100 37 BYRADIUS 1 km
        EXISTS to
        GEOSEARCHSTORE to missing FROMMEMBER a BYRADIUS 1 km
        GEOSEARCHSTORE k k FROMLONLAT 15 37 BYRADIUS 100 km
        ZRANGE k 0 -1 WITHSCORES
        GEOSEARCHSTORE to k FROMLONLAT 15 37 BYRADIUS 200 km WITHDIST
        GEOSEARCHSTORE to missing FROMLONLAT 15 37 BYRADIUS 200 km WITHCOORD
        GEOSEARCHSTORE to k BYRADIUS 200 km ASC ASC ASC
        GEOSEARCHSTORE to k FROMLONLAT 15 37 ASC ASC ASC
        GEOSEARCHSTORE to k FROMLONLAT 15 37 BYRADIUS 200 km STORE x
        SET s string
        GEOSEARCHSTORE to s FROMLONLAT 15 37 BYRADIUS 200 km
        GEOSEARCHSTORE s k FROMLONLAT 15 37 BYRADIUS 200 km
        TYPE s
    """,
    "radius": SICILY
    + """
        GEORADIUS k 15 37 200 km
        GEORADIUS k 15 37 200 km WITHDIST WITHCOORD WITHHASH
        GEORADIUS k 15 37 200 km ASC COUNT 1
        GEORADIUS k 15 37 200 km STORE to
        ZRANGE to 0 -1 WITHSCORES
        GEORADIUS k 15 37 200 km STOREDIST to
        ZRANGE to 0 -1 WITHSCORES
        GEORADIUS k 15 37 200 km STOREDIST x STORE to
        ZRANGE to 0 -1 WITHSCORES
        EXISTS x
        GEORADIUS k 15 37 200 km STORE to WITHDIST
        GEORADIUS k 15 37 200 km STORE
        GEORADIUS k 150 37 200 km STORE to
        EXISTS to
        GEORADIUS missing 15 37 200 km
        GEORADIUS missing 15 37 200 km STORE to
        GEORADIUS missing 150000 37 200 km
        GEORADIUS k 15 37 x km
        GEORADIUS k 15 37 -1 km
        GEORADIUS k 15 37 1 miles
        GEORADIUS k 15 37 200 km FROMMEMBER Palermo
        GEORADIUS k 15 37 200 km COUNT 0
        GEORADIUS k 15 37 200 km ANY
        GEORADIUS_RO k 15 37 200 km ASC
        GEORADIUS_RO k 15 37 200 km STORE to
        GEORADIUSBYMEMBER k Palermo 200 km
        GEORADIUSBYMEMBER k Palermo 200 km WITHDIST DESC
        GEORADIUSBYMEMBER k Palermo 200 km STOREDIST to
        ZRANGE to 0 -1 WITHSCORES
        GEORADIUSBYMEMBER k nobody 200 km
        GEORADIUSBYMEMBER k nobody x km
        GEORADIUSBYMEMBER missing nobody 200 km
        GEORADIUSBYMEMBER missing nobody x miles
        GEORADIUSBYMEMBER missing nobody 200 km NOPE
        GEORADIUSBYMEMBER missing nobody 200 km STORE to
        EXISTS to
        GEORADIUSBYMEMBER_RO k Palermo 200 km ASC
        GEORADIUSBYMEMBER_RO k Palermo 200 km STORE to
        SET s string
        GEORADIUS s 15 37 200 km
        GEORADIUS s x 37 200 km
        GEORADIUSBYMEMBER s a 200 km
        COMMAND GETKEYS GEORADIUS k 15 37 200 km STORE to
    """,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(pair: Pair, name: str) -> None:
    for line in SCENARIOS[name].strip().splitlines():
        pair.same(*shlex.split(line))


@pytest.mark.parametrize("name", GEO_COMMANDS)
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    pair.same("COMMAND", "INFO", name)


UNITS = ("m", "km", "ft", "mi")


def places(rng: random.Random, count: int) -> Iterator[tuple[float, float]]:
    """All over the world, many near each other, some at its edges; no two the same."""
    for _ in range(count):
        lon = rng.choice([rng.uniform(-180, 180), rng.gauss(13, 1), rng.uniform(179.9, 180)])
        lat = rng.choice([rng.uniform(-85, 85), rng.gauss(38, 1), rng.uniform(79, 85)])
        yield lon * rng.choice((1, -1)), lat * rng.choice((1, -1))


def searches(rng: random.Random, count: int) -> Iterator[tuple[Argument, ...]]:
    for lon, lat in places(rng, count):
        size = rng.choice([rng.uniform(0, 100), rng.uniform(0, 10_000), 10 ** rng.uniform(-2, 7.5)])
        unit = rng.choice(UNITS)
        shape = rng.choice([("BYRADIUS", size, unit), ("BYBOX", size, size * rng.random(), unit)])
        options: list[Argument] = [
            word for word in ("WITHDIST", "WITHHASH", "WITHCOORD") if rng.random() < 0.3
        ]
        options += rng.choice([(), ("ASC",), ("DESC",)])
        options += rng.choice([(), ("COUNT", 3), ("COUNT", 5, "ANY")])
        yield "GEOSEARCH", "k", "FROMLONLAT", lon, lat, *shape, *options


@pytest.mark.parametrize("seed", range(3))
def test_many_places(pair: Pair, seed: int) -> None:
    """Also the order of unsorted results, which is that of the searched cells."""
    rng = random.Random(seed)
    for number, (lon, lat) in enumerate(places(rng, 300)):
        pair.same("GEOADD", "k", lon, lat, f"m{number}")
    members = [f"m{number}" for number in range(300)]
    assert_same(pair, [("GEOPOS", "k", *members), ("GEOHASH", "k", *members)])
    for _ in range(200):
        pair.same("GEODIST", "k", *rng.sample(members, 2), rng.choice(UNITS))
    for search in searches(rng, 300):
        pair.same(*search)
