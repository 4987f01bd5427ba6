"""Places: sorted sets whose scores are geohashes. The arithmetic is in geohash.py."""

from collections.abc import Iterator
from functools import partial
from math import sqrt
from typing import NamedTuple

from holdfast import geohash
from holdfast.commands.args import parse_int
from holdfast.commands.context import Context
from holdfast.commands.table import Keys, command, one
from holdfast.commands.zsets.zset_args import (
    ADD_FLAGS,
    NX,
    XX,
    parse_score,
    put_entries,
    store_entries,
)
from holdfast.errors import SYNTAX, WRONG_TYPE, CommandError
from holdfast.resp import NULL_ARRAY, HumanFloat, Reply
from holdfast.store.values.zset import ZSet

UNSUPPORTED_UNIT = CommandError("ERR unsupported unit provided. please use M, KM, FT, MI")
NOT_A_RADIUS = CommandError("ERR need numeric radius")
RADIUS_NEGATIVE = CommandError("ERR radius cannot be negative")
NOT_A_WIDTH = CommandError("ERR need numeric width")
NOT_A_HEIGHT = CommandError("ERR need numeric height")
BOX_NEGATIVE = CommandError("ERR height or width cannot be negative")
NO_SUCH_MEMBER = CommandError("ERR could not decode requested zset member")
COUNT_NOT_POSITIVE = CommandError("ERR COUNT must be > 0")
ANY_WITHOUT_COUNT = CommandError("ERR the ANY argument requires COUNT argument")

METRES = {b"M": 1.0, b"KM": 1000.0, b"FT": 0.3048, b"MI": 1609.34}

geo_command = partial(command, group="geo", categories="geo")


# -- arguments and replies --------------------------------------------------------------------


def _unit(text: bytes) -> float:
    metres = METRES.get(text.upper())
    if metres is None:
        raise UNSUPPORTED_UNIT
    return metres


def _place(lon_text: bytes, lat_text: bytes) -> tuple[float, float]:
    lon, lat = parse_score(lon_text), parse_score(lat_text)
    if abs(lon) > geohash.LON_MAX or abs(lat) > geohash.LAT_MAX:
        raise CommandError(f"ERR invalid longitude,latitude pair {lon:f},{lat:f}")
    return lon, lat


def _place_reply(score: float) -> list[Reply]:
    lon, lat = geohash.decode(score)
    return [HumanFloat(lon), HumanFloat(lat)]


def _distance_text(distance: float) -> bytes:
    """A distance with four decimals. Redis rounds an integer, so the last digit may differ from
    that of %.4f."""
    return b"%d.%04d" % divmod(round(distance * 10_000), 10_000)


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
        float(geohash.encode(*_place(lon, lat)))
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
    metres = _unit(argv[4]) if len(argv) == 5 else 1.0
    value = c.db.read_as(argv[1], ZSet)
    if value is None:
        return None
    first, second = value.score(argv[2]), value.score(argv[3])
    if first is None or second is None:
        return None
    distance_m = geohash.distance_m(*geohash.decode(first), *geohash.decode(second))
    return _distance_text(distance_m / metres)


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
    return [NULL_ARRAY if score is None else _place_reply(score) for score in scores]


# -- searching --------------------------------------------------------------------------------


class GeoMatch(NamedTuple):
    member: bytes
    score: float
    distance_m: float


class Search:
    """A search: its area, and the form of its reply."""

    center: tuple[float, float] | None = None
    metres: float = 1.0  # in one unit of the request
    radius: float | None = None
    box: tuple[float, float] | None = None  # width and height
    with_distance: bool = False
    with_hash: bool = False
    with_place: bool = False
    is_sorted: bool = False
    descending: bool = False
    count: int = 0
    any_will_do: bool = False
    target: bytes | None = None
    stores_distance: bool = False

    def __init__(self, value: ZSet | None) -> None:
        self.value = value

    def center_on_member(self, member: bytes) -> None:
        """Search around a member. A missing member is an error. If the whole set is missing, the
        other arguments are checked first, as in Redis."""
        if self.value is None:
            self.center = (0.0, 0.0)
            return
        score = self.value.score(member)
        if score is None:
            raise NO_SUCH_MEMBER
        self.center = geohash.decode(score)

    def set_radius(self, radius: bytes, unit: bytes) -> None:
        self.radius = parse_score(radius, NOT_A_RADIUS)
        if self.radius < 0:
            raise RADIUS_NEGATIVE
        self.metres = _unit(unit)

    def set_box(self, width: bytes, height: bytes, unit: bytes) -> None:
        self.box = parse_score(width, NOT_A_WIDTH), parse_score(height, NOT_A_HEIGHT)
        if min(self.box) < 0:
            raise BOX_NEGATIVE
        self.metres = _unit(unit)

    def matches(self) -> list[GeoMatch]:
        found: list[GeoMatch] = []
        for member in self._near():
            found.append(member)
            if self.any_will_do and len(found) == self.count:
                break
        # COUNT without ANY returns the nearest members, so all members are sorted.
        if self.is_sorted or (self.count and not self.any_will_do):
            found.sort(key=lambda it: -it.distance_m if self.descending else it.distance_m)
        return found[: self.count] if self.count else found

    def _near(self) -> Iterator[GeoMatch]:
        assert self.value is not None
        assert self.center is not None
        lon, lat = self.center
        width, height = self.box or (0.0, 0.0)
        if self.radius is not None:
            half_width_m = half_height_m = radius_m = self.radius * self.metres
        else:
            half_width_m, half_height_m = self.metres * (width / 2), self.metres * (height / 2)
            radius_m = sqrt(width / 2 * (width / 2) + height / 2 * (height / 2)) * self.metres
        for low, high in geohash.ranges(lon, lat, half_width_m, half_height_m, radius_m):
            start, stop = self.value.score_range((low, False), (high, False))
            for score, member in self.value.slice(start, max(start, stop)):
                its_lon, its_lat = geohash.decode(score)
                if self.radius is None and (
                    geohash.latitude_distance_m(its_lat, lat) > height * self.metres / 2
                    or geohash.distance_m(its_lon, its_lat, lon, its_lat) > width * self.metres / 2
                ):
                    continue
                distance_m = geohash.distance_m(lon, lat, its_lon, its_lat)
                if self.radius is None or distance_m <= radius_m:
                    yield GeoMatch(member, score, distance_m)

    def reply(self, c: Context, event: bytes) -> Reply:
        found = self.matches() if self.value is not None else []
        if self.target is not None:
            entries = [
                (it.distance_m / self.metres if self.stores_distance else it.score, it.member)
                for it in found
            ]
            return store_entries(c, self.target, entries, event)
        if not (self.with_distance or self.with_hash or self.with_place):
            return tuple(it.member for it in found)
        return [self._row(it) for it in found]

    def _row(self, it: GeoMatch) -> list[Reply]:
        row: list[Reply] = [it.member]
        if self.with_distance:
            row.append(_distance_text(it.distance_m / self.metres))
        if self.with_hash:
            row.append(int(it.score))
        if self.with_place:
            row.append(_place_reply(it.score))
        return row


def _start(c: Context, name: bytes) -> Search:
    """Begin a search. As in Redis, the key is checked before any other argument."""
    key = c.db.read(name)
    value = None if key is None else key.value
    if value is not None and not isinstance(value, ZSet):
        raise WRONG_TYPE
    return Search(value)


def _read_options(search: Search, argv: list[bytes], at: int, *, form: str) -> None:
    """Read the options into `search`. `form` is "radius", "radius store" (storing is optional),
    "search", or "search store" (it always stores)."""
    is_search = form.startswith("search")
    from_member = from_place = False
    while at < len(argv):
        word, left = argv[at].upper(), len(argv) - at - 1
        if word == b"WITHDIST":
            search.with_distance = True
        elif word == b"WITHHASH":
            search.with_hash = True
        elif word == b"WITHCOORD":
            search.with_place = True
        elif word == b"ANY":
            search.any_will_do = True
        elif word in (b"ASC", b"DESC"):
            search.is_sorted, search.descending = True, word == b"DESC"
        elif word == b"COUNT" and left >= 1:
            search.count = parse_int(argv[at + 1])
            if search.count <= 0:
                raise COUNT_NOT_POSITIVE
            at += 1
        elif word in (b"STORE", b"STOREDIST") and form == "radius store" and left >= 1:
            search.target, search.stores_distance = argv[at + 1], word == b"STOREDIST"
            at += 1
        elif word == b"STOREDIST" and form == "search store":
            search.stores_distance = True
        elif word == b"FROMMEMBER" and is_search and left >= 1 and not from_place:
            search.center_on_member(argv[at + 1])
            from_member = True
            at += 1
        elif word == b"FROMLONLAT" and is_search and left >= 2 and not from_member:
            search.center = _place(argv[at + 1], argv[at + 2])
            from_place = True
            at += 2
        elif word == b"BYRADIUS" and is_search and left >= 2 and search.box is None:
            search.set_radius(argv[at + 1], argv[at + 2])
            at += 2
        elif word == b"BYBOX" and is_search and left >= 3 and search.radius is None:
            search.set_box(argv[at + 1], argv[at + 2], argv[at + 3])
            at += 3
        else:
            raise SYNTAX
        at += 1
    if search.target is not None and (
        search.with_distance or search.with_hash or search.with_place
    ):
        form = "GEOSEARCHSTORE" if is_search else "STORE option in GEORADIUS"
        raise CommandError(
            f"ERR {form} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
        )
    if is_search:
        name = argv[0].decode("latin-1")
        if search.center is None:
            raise CommandError(
                f"ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"
            )
        if search.radius is None and search.box is None:
            raise CommandError(f"ERR exactly one of BYRADIUS and BYBOX can be specified for {name}")
    if search.any_will_do and not search.count:
        raise ANY_WITHOUT_COUNT


@geo_command("geosearch", -7, "readonly", one("RO access"), since="6.2.0")
def geosearch(c: Context, argv: list[bytes]) -> Reply:
    """The members within a circle or a box around a place or a member.

    GEOSEARCH key FROMMEMBER member | FROMLONLAT longitude latitude
        BYRADIUS radius M | KM | FT | MI | BYBOX width height M | KM | FT | MI
        [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]
    """
    search = _start(c, argv[1])
    _read_options(search, argv, 2, form="search")
    return search.reply(c, b"")


@geo_command(
    "geosearchstore", -8, "write denyoom", one("OW update"), one("RO access", 2), since="6.2.0"
)
def geosearchstore(c: Context, argv: list[bytes]) -> Reply:
    """Store the result of GEOSEARCH, with STOREDIST the distances; return how many members.

    GEOSEARCHSTORE destination source FROMMEMBER member | FROMLONLAT longitude latitude
        BYRADIUS radius M | KM | FT | MI | BYBOX width height M | KM | FT | MI
        [ASC | DESC] [COUNT count [ANY]] [STOREDIST]
    """
    search = _start(c, argv[2])
    search.target = argv[1]
    _read_options(search, argv, 3, form="search store")
    return search.reply(c, b"geosearchstore")


def _radius(c: Context, argv: list[bytes], *, form: str) -> Reply:
    search = _start(c, argv[1])
    search.center = _place(argv[2], argv[3])
    search.set_radius(argv[4], argv[5])
    _read_options(search, argv, 6, form=form)
    return search.reply(c, b"georadiusstore")


def _radius_by_member(c: Context, argv: list[bytes], *, form: str) -> Reply:
    search = _start(c, argv[1])
    if search.value is not None:
        search.center_on_member(argv[2])
        search.set_radius(argv[3], argv[4])
    _read_options(search, argv, 5, form=form)
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
