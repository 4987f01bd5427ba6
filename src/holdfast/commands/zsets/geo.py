"""Places: sorted sets whose scores are geohashes. Searching is in geo_search.py, the arithmetic is
in geohash.py."""

from functools import partial

from holdfast import geohash
from holdfast.commands.context import Context
from holdfast.commands.table import Keys, command, one
from holdfast.commands.zsets.geo_search import (
    begin_search,
    distance_text,
    parse_place,
    parse_unit,
    place_reply,
    read_options,
)
from holdfast.commands.zsets.zset_args import ADD_FLAGS, NX, XX, put_entries
from holdfast.errors import SYNTAX
from holdfast.resp import NULL_ARRAY, Reply
from holdfast.store.values.zset import ZSet

geo_command = partial(command, group="geo", categories="geo")


# -- adding and asking ------------------------------------------------------------------------


@geo_command("geoadd", -5, "write denyoom", one("RW update"), since="3.2.0")
def geoadd(c: Context, argv: list[bytes]) -> Reply:
    """Set the places of members; return how many are new, or with CH, how many are new or moved.

    GEOADD key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]
    """
    at = 2
    flags = 0
    while at < len(argv) and (word := argv[at].upper()) in (b"NX", b"XX", b"CH"):
        flags |= ADD_FLAGS[word]
        at += 1
    if (len(argv) - at) % 3 or at == len(argv) or (flags & NX and flags & XX):
        raise SYNTAX
    scores = [
        float(geohash.encode(*parse_place(lon, lat)))
        for lon, lat in zip(argv[at::3], argv[at + 1 :: 3], strict=True)
    ]
    return put_entries(c, argv[1], scores, argv[at + 2 :: 3], flags)


@geo_command("geodist", -4, "readonly", one("RO access"), since="3.2.0")
def geodist(c: Context, argv: list[bytes]) -> Reply:
    """The distance between two members; null if one is missing.

    GEODIST key member1 member2 [M | KM | FT | MI]
    """
    if len(argv) > 5:
        raise SYNTAX
    metres = parse_unit(argv[4]) if len(argv) == 5 else 1.0
    value = c.db.read_as(argv[1], ZSet)
    if value is None:
        return None
    first, second = value.score(argv[2]), value.score(argv[3])
    if first is None or second is None:
        return None
    distance_m = geohash.distance_m(*geohash.decode(first), *geohash.decode(second))
    return distance_text(distance_m / metres)


@geo_command("geohash", -2, "readonly", one("RO access"), since="3.2.0")
def geohash_(c: Context, argv: list[bytes]) -> Reply:
    """The standard geohashes of members.

    GEOHASH key [member [member ...]]
    """
    value = c.db.read_as(argv[1], ZSet)
    scores = [value.score(member) if value else None for member in argv[2:]]
    return [None if score is None else geohash.text(*geohash.decode(score)) for score in scores]


@geo_command("geopos", -2, "readonly", one("RO access"), since="3.2.0")
def geopos(c: Context, argv: list[bytes]) -> Reply:
    """The longitudes and latitudes of members.

    GEOPOS key [member [member ...]]
    """
    value = c.db.read_as(argv[1], ZSet)
    scores = [value.score(member) if value else None for member in argv[2:]]
    return [NULL_ARRAY if score is None else place_reply(score) for score in scores]


# -- searching --------------------------------------------------------------------------------


@geo_command("geosearch", -7, "readonly", one("RO access"), since="6.2.0")
def geosearch(c: Context, argv: list[bytes]) -> Reply:
    """The members within a circle or a box around a place or a member, or within a polygon.

    GEOSEARCH key [FROMMEMBER member | FROMLONLAT longitude latitude]
        BYRADIUS radius M | KM | FT | MI | BYBOX width height M | KM | FT | MI |
        BYPOLYGON num-vertices longitude latitude [longitude latitude ...]
        [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]

    BYPOLYGON is Valkey's. Distances are then in metres, from the middle of the polygon.
    """
    search = begin_search(c, argv[1])
    read_options(search, argv, 2, form="search")
    return search.reply(c, b"")


@geo_command(
    "geosearchstore", -8, "write denyoom", one("OW update"), one("RO access", 2), since="6.2.0"
)
def geosearchstore(c: Context, argv: list[bytes]) -> Reply:
    """Store the result of GEOSEARCH, with STOREDIST the distances; return how many members.

    GEOSEARCHSTORE destination source [FROMMEMBER member | FROMLONLAT longitude latitude]
        BYRADIUS radius M | KM | FT | MI | BYBOX width height M | KM | FT | MI |
        BYPOLYGON num-vertices longitude latitude [longitude latitude ...]
        [ASC | DESC] [COUNT count [ANY]] [STOREDIST]
    """
    search = begin_search(c, argv[2])
    search.target = argv[1]
    read_options(search, argv, 3, form="search store")
    return search.reply(c, b"geosearchstore")


def _radius(c: Context, argv: list[bytes], *, form: str) -> Reply:
    search = begin_search(c, argv[1])
    search.center = parse_place(argv[2], argv[3])
    search.set_radius(argv[4], argv[5])
    read_options(search, argv, 6, form=form)
    return search.reply(c, b"georadiusstore")


def _radius_by_member(c: Context, argv: list[bytes], *, form: str) -> Reply:
    search = begin_search(c, argv[1])
    if search.value is not None:
        search.center_on_member(argv[2])
        search.set_radius(argv[3], argv[4])
    read_options(search, argv, 5, form=form)
    return search.reply(c, b"georadiusstore")


def _stored_keys(start: int) -> tuple[Keys, Keys, Keys]:
    """The keys of GEORADIUS: the set, and the keys after STORE and STOREDIST."""
    return (
        one("RO access"),
        Keys("OW update", start, keyword="STORE"),
        Keys("OW update", start, keyword="STOREDIST"),
    )


@geo_command("georadius", -6, "write denyoom movablekeys", *_stored_keys(6), since="3.2.0")
def georadius(c: Context, argv: list[bytes]) -> Reply:
    """The members within a circle around a place; can store them. GEOSEARCH is its successor.

    GEORADIUS key longitude latitude radius M | KM | FT | MI [WITHCOORD] [WITHDIST] [WITHHASH]
        [COUNT count [ANY]] [ASC | DESC] [STORE key] [STOREDIST key]
    """
    return _radius(c, argv, form="radius store")


@geo_command("georadius_ro", -6, "readonly", one("RO access"), since="3.2.10")
def georadius_ro(c: Context, argv: list[bytes]) -> Reply:
    """The same as GEORADIUS, but read-only: it cannot store.

    GEORADIUS_RO key longitude latitude radius M | KM | FT | MI [WITHCOORD] [WITHDIST]
        [WITHHASH] [COUNT count [ANY]] [ASC | DESC]
    """
    return _radius(c, argv, form="radius")


@geo_command("georadiusbymember", -5, "write denyoom movablekeys", *_stored_keys(5), since="3.2.0")
def georadiusbymember(c: Context, argv: list[bytes]) -> Reply:
    """The members within a circle around a member; can store them. GEOSEARCH is its successor.

    GEORADIUSBYMEMBER key member radius M | KM | FT | MI [WITHCOORD] [WITHDIST] [WITHHASH]
        [COUNT count [ANY]] [ASC | DESC] [STORE key] [STOREDIST key]
    """
    return _radius_by_member(c, argv, form="radius store")


@geo_command("georadiusbymember_ro", -5, "readonly", one("RO access"), since="3.2.10")
def georadiusbymember_ro(c: Context, argv: list[bytes]) -> Reply:
    """The same as GEORADIUSBYMEMBER, but read-only: it cannot store.

    GEORADIUSBYMEMBER_RO key member radius M | KM | FT | MI [WITHCOORD] [WITHDIST] [WITHHASH]
        [COUNT count [ANY]] [ASC | DESC]
    """
    return _radius_by_member(c, argv, form="radius")
