"""Searches for places: the area, the options, and the form of the reply."""

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

from holdfast import geohash
from holdfast.commands.args import parse_int, parse_int_between
from holdfast.commands.context import Context
from holdfast.commands.zsets.zset_args import parse_score, store_entries
from holdfast.errors import SYNTAX, WRONG_TYPE, CommandError
from holdfast.resp import HumanFloat, Reply
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
BAD_VERTEX_COUNT = CommandError("ERR invalid number of vertices")
TOO_FEW_VERTICES = CommandError("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices")

INT32_MAX = (1 << 31) - 1
FEWEST_VERTICES = 3
FROM_AND_BY = (b"FROMMEMBER", b"FROMLONLAT", b"BYRADIUS", b"BYBOX")  # not with a polygon


# -- arguments and replies --------------------------------------------------------------------


def parse_unit(text: bytes) -> float:
    metres = METRES.get(text.upper())
    if metres is None:
        raise UNSUPPORTED_UNIT
    return metres


def parse_place(lon_text: bytes, lat_text: bytes) -> tuple[float, float]:
    lon, lat = parse_score(lon_text), parse_score(lat_text)
    if abs(lon) > geohash.LON_MAX or abs(lat) > geohash.LAT_MAX:
        raise CommandError(f"ERR invalid longitude,latitude pair {lon:f},{lat:f}")
    return lon, lat


def place_reply(score: float) -> list[Reply]:
    lon, lat = geohash.decode(score)
    return [HumanFloat(lon), HumanFloat(lat)]


def distance_text(distance: float) -> bytes:
    """A distance with four decimals. Redis rounds an integer, so the last digit may differ from
    that of %.4f."""
    return b"%d.%04d" % divmod(round(distance * 10_000), 10_000)


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
    polygon: geohash.Polygon | None = None
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
        self.metres = parse_unit(unit)

    def set_box(self, width: bytes, height: bytes, unit: bytes) -> None:
        self.box = parse_score(width, NOT_A_WIDTH), parse_score(height, NOT_A_HEIGHT)
        if min(self.box) < 0:
            raise BOX_NEGATIVE
        self.metres = parse_unit(unit)

    def set_polygon(self, words: list[bytes]) -> int:
        """Take the vertices that follow their number. Returns how many arguments they are."""
        count = parse_int_between(words[0], -INT32_MAX - 1, INT32_MAX, BAD_VERTEX_COUNT)
        if count < FEWEST_VERTICES or len(words) - 1 < 2 * count:
            raise TOO_FEW_VERTICES
        degrees = words[1 : 1 + 2 * count]
        vertices = [parse_place(*pair) for pair in zip(degrees[::2], degrees[1::2], strict=True)]
        self.polygon = geohash.Polygon(vertices)
        self.center, self.metres = self.polygon.middle, 1.0
        return len(degrees)

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
        for low, high in geohash.ranges(lon, lat, *self._extent()):
            start, stop = self.value.score_range((low, False), (high, False))
            for score, member in self.value.slice(start, max(start, stop)):
                its_lon, its_lat = geohash.decode(score)
                if self.radius is None and not self._contains(its_lon, its_lat):
                    continue
                distance_m = geohash.distance_m(lon, lat, its_lon, its_lat)
                if self.radius is None or distance_m <= self.radius * self.metres:
                    yield GeoMatch(member, score, distance_m)

    def _extent(self) -> tuple[geohash.Bounds, float]:
        """The box around the area, and the distance from its middle to the farthest corner."""
        assert self.center is not None
        if self.polygon is not None:
            return self.polygon.bounds, self.polygon.radius_m
        if self.radius is not None:
            radius_m = self.radius * self.metres
            return geohash.bounds_around(*self.center, radius_m, radius_m), radius_m
        width, height = self.box or (0.0, 0.0)
        half_width_m, half_height_m = self.metres * (width / 2), self.metres * (height / 2)
        radius_m = sqrt(width / 2 * (width / 2) + height / 2 * (height / 2)) * self.metres
        return geohash.bounds_around(*self.center, half_width_m, half_height_m), radius_m

    def _contains(self, lon: float, lat: float) -> bool:
        """Whether a place is in the polygon or in the box. (A circle needs only the distance.)"""
        if self.polygon is not None:
            return self.polygon.contains(lon, lat)
        assert self.center is not None
        assert self.box is not None
        width, height = self.box
        return not (
            geohash.latitude_distance_m(lat, self.center[1]) > height * self.metres / 2
            or geohash.distance_m(lon, lat, self.center[0], lat) > width * self.metres / 2
        )

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
            row.append(distance_text(it.distance_m / self.metres))
        if self.with_hash:
            row.append(int(it.score))
        if self.with_place:
            row.append(place_reply(it.score))
        return row


def begin_search(c: Context, name: bytes) -> Search:
    """Begin a search. As in Redis, the key is checked before any other argument."""
    key = c.db.read(name)
    value = None if key is None else key.value
    if value is not None and not isinstance(value, ZSet):
        raise WRONG_TYPE
    return Search(value)


def read_options(search: Search, argv: list[bytes], at: int, *, form: str) -> None:
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
        elif (
            word == b"BYPOLYGON"
            and is_search
            and left >= 2
            and not (from_member or from_place)
            and search.radius is None
            and search.box is None
        ):
            at += 1 + search.set_polygon(argv[at + 1 :])
        elif word in FROM_AND_BY and search.polygon is not None:
            raise SYNTAX
        elif word == b"FROMMEMBER" and is_search and left >= 1 and not from_place:
            search.center_on_member(argv[at + 1])
            from_member = True
            at += 1
        elif word == b"FROMLONLAT" and is_search and left >= 2 and not from_member:
            search.center = parse_place(argv[at + 1], argv[at + 2])
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
        if search.radius is None and search.box is None and search.polygon is None:
            raise CommandError(f"ERR exactly one of BYRADIUS and BYBOX can be specified for {name}")
    if search.any_will_do and not search.count:
        raise ANY_WITHOUT_COUNT
