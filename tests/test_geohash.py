"""The arithmetic of places. tests/wire/test_oracle_geo.py compares it with redis-server."""

import math
import random

import pytest

from holdfast import geohash

RNG = random.Random(7)
PLACES = [(RNG.uniform(-180, 180), RNG.uniform(-85, 85)) for _ in range(200)]


@pytest.mark.parametrize(("lon", "lat"), PLACES)
def test_a_place_survives_within_centimetres(lon: float, lat: float) -> None:
    assert geohash.distance_m(lon, lat, *geohash.decode(geohash.encode(lon, lat))) < 0.6


def test_a_known_place() -> None:
    assert geohash.encode(13.361389, 38.115556) == 3479099956230698
    assert geohash.text(13.361389, 38.115556) == b"sqc8b49rny0"


def test_the_edges_of_the_world() -> None:
    for lon in (-180.0, 180.0):
        for lat in (-geohash.LAT_MAX, geohash.LAT_MAX):
            found_lon, found_lat = geohash.decode(geohash.encode(lon, lat))
            assert abs(found_lon) <= 180
            assert abs(found_lat) <= geohash.LAT_MAX


def test_other_ends_of_the_world() -> None:
    for lon, lat in PLACES:
        far = geohash.distance_m(lon, lat, lon - math.copysign(180, lon), -lat)
        assert far == pytest.approx(math.pi * 6372797.560856)


@pytest.mark.parametrize("score", [math.inf, -math.inf, -1.0, 1e300, -1e300, 2.0**63, 2.0**64])
def test_every_score_is_some_place(score: float) -> None:
    lon, lat = geohash.decode(score)
    assert abs(lon) <= geohash.LON_MAX
    assert abs(lat) <= geohash.LAT_MAX


@pytest.mark.parametrize("radius_m", [0.0, 1.0, 1e3, 1e5, 5e6, math.inf])
def test_ranges_cover_near_places(radius_m: float) -> None:
    for lon, lat in PLACES:
        bounds = geohash.bounds_around(lon, lat, radius_m, radius_m)
        ranges = geohash.ranges(lon, lat, bounds, radius_m)
        for other_lon, other_lat in [(lon, lat), *PLACES]:
            if geohash.distance_m(lon, lat, other_lon, other_lat) < min(radius_m, 1e6):
                score = geohash.encode(other_lon, other_lat)
                assert any(low <= score < high for low, high in ranges)
