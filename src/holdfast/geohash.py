"""Geohashes: a place on Earth as a number of 52 bits. Places that are near each other mostly have
numbers that are near each other. Every result equals that of Redis to the last digit. Imports
nothing of ours.

A number interleaves 26 bits of latitude (the even bits) with 26 bits of longitude. A hash of fewer
than 26 steps names a larger cell, which is a range of numbers.
"""

from collections.abc import Sequence
from math import asin, atan2, cos, fabs, inf, nan, pi, sin, sqrt

LON_MAX = 180.0
LAT_MAX = 85.05112878  # a Mercator map ends here
STEPS = 26

_EARTH_RADIUS_M = 6372797.560856
_MERCATOR_MAX_M = 20037726.37
_RADIANS = pi / 180.0
_ALPHABET = b"0123456789bcdefghjkmnpqrstuvwxyz"

Place = tuple[float, float]  # longitude and latitude
Bounds = tuple[float, float, float, float]  # west, south, east, north

# The eight neighbours of a cell, as steps in longitude and latitude, in the order of the search.
_NEIGHBOURS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1))


def encode(lon: float, lat: float) -> int:
    return _interleave(_index(lon, LON_MAX, STEPS), _index(lat, LAT_MAX, STEPS))


def decode(score: float) -> tuple[float, float]:
    """Longitude and latitude of the middle of the cell. Every score decodes to some place."""
    bits = _unsigned(score)
    lon_min, lon_max = _edges(_every_second(bits >> 1), LON_MAX, STEPS)
    lat_min, lat_max = _edges(_every_second(bits), LAT_MAX, STEPS)
    lon, lat = (lon_min + lon_max) / 2, (lat_min + lat_max) / 2
    return min(max(lon, -LON_MAX), LON_MAX), min(max(lat, -LAT_MAX), LAT_MAX)


def text(lon: float, lat: float) -> bytes:
    """The standard geohash, for all latitudes: eleven letters, of which the last is always 0."""
    bits = _interleave(_index(lon, LON_MAX, STEPS), _index(lat, 90.0, STEPS))
    return bytes(_ALPHABET[bits >> shift & 31] for shift in range(47, 0, -5)) + b"0"


def distance_m(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """The distance in metres along the surface of a sphere."""
    v = sin((lon2 * _RADIANS - lon1 * _RADIANS) / 2)
    if v == 0.0:
        return latitude_distance_m(lat1, lat2)
    lat1_r, lat2_r = lat1 * _RADIANS, lat2 * _RADIANS
    u = sin((lat2_r - lat1_r) / 2)
    a = u * u + cos(lat1_r) * cos(lat2_r) * v * v
    return 2.0 * _EARTH_RADIUS_M * asin(min(sqrt(a), 1.0))


def latitude_distance_m(lat1: float, lat2: float) -> float:
    return _EARTH_RADIUS_M * fabs(lat2 * _RADIANS - lat1 * _RADIANS)


def bounds_around(lon: float, lat: float, half_width_m: float, half_height_m: float) -> Bounds:
    """The box around a place."""
    lat_delta = half_height_m / _EARTH_RADIUS_M / _RADIANS
    # The parallel nearer to the pole is shorter, so the same metres are more degrees there.
    widest = lat - lat_delta if lat < 0 else lat + lat_delta
    # With nan, no comparison with an edge is true, so no edge counts as too near.
    shrinks = cos(widest * _RADIANS) if fabs(widest) < inf else nan
    lon_delta = half_width_m / _EARTH_RADIUS_M / shrinks / _RADIANS
    return lon - lon_delta, lat - lat_delta, lon + lon_delta, lat + lat_delta


def ranges(lon: float, lat: float, bounds: Bounds, radius_m: float) -> list[tuple[int, int]]:
    """Half-open ranges of numbers that together cover an area. The area is given by its middle, the
    box around it, and the distance from the middle to the farthest corner of the box. Each range is
    a cell: that of the middle, and those of its neighbours that the area reaches."""
    west, south, east, north = bounds
    steps = _steps_for(radius_m, lat)
    mask = (1 << steps) - 1
    x, y = _index(lon, LON_MAX, steps), _index(lat, LAT_MAX, steps)
    if steps > 1 and (
        _edges((y + 1) & mask, LAT_MAX, steps)[1] < north
        or _edges((y - 1) & mask, LAT_MAX, steps)[0] > south
        or _edges((x + 1) & mask, LON_MAX, steps)[1] < east
        or _edges((x - 1) & mask, LON_MAX, steps)[0] > west
    ):
        steps -= 1
        mask >>= 1
        x, y = _index(lon, LON_MAX, steps), _index(lat, LAT_MAX, steps)

    lon_min, lon_max = _edges(x, LON_MAX, steps)
    lat_min, lat_max = _edges(y, LAT_MAX, steps)
    reaches_lon = {-1: not lon_min < west, 0: True, 1: not lon_max > east}
    reaches_lat = {-1: not lat_min < south, 0: True, 1: not lat_max > north}
    cells = [_interleave(x, y)]
    for dx, dy in _NEIGHBOURS:
        if steps < 2 or (reaches_lon[dx] and reaches_lat[dy]):
            cell = _interleave(
                (x + dx) & mask if dx else x,
                (y + dy) & mask if dy else y,
            )
            # When cells are as large as continents, two neighbours may be the same cell.
            if cell != cells[-1]:
                cells.append(cell)
    shift = 2 * (STEPS - steps)
    return [(cell << shift, (cell + 1) << shift) for cell in cells]


class Polygon:
    """An area whose edges are straight lines on a map, as in Valkey."""

    def __init__(self, vertices: Sequence[Place]) -> None:
        self._vertices = vertices
        lons, lats = [lon for lon, _ in vertices], [lat for _, lat in vertices]
        self.bounds: Bounds = min(lons), min(lats), max(lons), max(lats)
        x = y = z = 0.0  # the sum of the vertices, as points of a sphere, points to the middle
        for lon, lat in vertices:
            lon_r, lat_r = lon * _RADIANS, lat * _RADIANS
            x += cos(lat_r) * cos(lon_r)
            y += cos(lat_r) * sin(lon_r)
            z += sin(lat_r)
        self.middle: Place = atan2(y, x) / _RADIANS, atan2(z, sqrt(x * x + y * y)) / _RADIANS

    @property
    def radius_m(self) -> float:
        """The distance from the middle to the farthest corner of the box around the polygon."""
        west, south, east, north = self.bounds
        corners = ((west, north), (east, north), (west, south), (east, south))
        return max(distance_m(*self.middle, *corner) for corner in corners)

    def contains(self, lon: float, lat: float) -> bool:
        """Whether a ray from the place to the east crosses an odd number of edges."""
        is_inside = False
        last_lon, last_lat = self._vertices[-1]
        for its_lon, its_lat in self._vertices:
            if (its_lat > lat) != (last_lat > lat) and lon < (last_lon - its_lon) * (
                lat - its_lat
            ) / (last_lat - its_lat) + its_lon:
                is_inside = not is_inside
            last_lon, last_lat = its_lon, its_lat
        return is_inside


def _steps_for(radius_m: float, lat: float) -> int:
    """The most steps, hence the smallest cells, with which nine cells still cover the radius."""
    if radius_m == 0:
        return STEPS
    steps = 1
    while radius_m < _MERCATOR_MAX_M:
        radius_m *= 2
        steps += 1
    steps -= 2
    steps -= (fabs(lat) > 66) + (fabs(lat) > 80)  # near the poles a cell is narrow
    return min(max(steps, 1), STEPS)


def _index(degrees: float, most: float, steps: int) -> int:
    """The number of the part that holds `degrees`, of 2^steps equal parts of -most to most."""
    return int((degrees + most) / (most + most) * (1 << steps))


def _edges(index: int, most: float, steps: int) -> tuple[float, float]:
    scale, parts = most + most, 1 << steps
    return -most + index * 1.0 / parts * scale, -most + (index + 1) * 1.0 / parts * scale


def _interleave(x: int, y: int) -> int:
    return _spread(y) | _spread(x) << 1


def _spread(bits: int) -> int:
    """Insert a zero bit between neighbouring bits of a 32-bit number."""
    bits = (bits | bits << 16) & 0x0000FFFF0000FFFF
    bits = (bits | bits << 8) & 0x00FF00FF00FF00FF
    bits = (bits | bits << 4) & 0x0F0F0F0F0F0F0F0F
    bits = (bits | bits << 2) & 0x3333333333333333
    return (bits | bits << 1) & 0x5555555555555555


def _every_second(bits: int) -> int:
    """The inverse of `_spread`."""
    bits &= 0x5555555555555555
    bits = (bits | bits >> 1) & 0x3333333333333333
    bits = (bits | bits >> 2) & 0x0F0F0F0F0F0F0F0F
    bits = (bits | bits >> 4) & 0x00FF00FF00FF00FF
    bits = (bits | bits >> 8) & 0x0000FFFF0000FFFF
    return (bits | bits >> 16) & 0x00000000FFFFFFFF


def _unsigned(score: float) -> int:
    """Convert a score to an unsigned number as x86-64 does, because a score may be no place."""
    if -(2.0**63) <= score < 2.0**64:
        return int(score) & ((1 << 64) - 1)
    return 1 << 63 if score < 0 else 0
