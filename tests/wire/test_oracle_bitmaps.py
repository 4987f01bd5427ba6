"""Bitmap commands against redis-server: every option and error, and random ones on long values."""

import random

import pytest

from tests.harness import Pair
from tests.wire.same import Line, assert_same

START: list[Line] = [
    "SET s foobar",
    "SET n 12345",
    "RPUSH l a",
    "SET e ''",
    ("SET", "ones", b"\xff" * 3),
    ("SET", "zeros", bytes(3)),
    ("SET", "mixed", b"\x00\xff\xf0\x0f\x00"),
    ("SET", "far", bytes(70_000) + b"\x01" + bytes(70_000)),
    ("SET", "far1", b"\xff" * 140_000 + b"\xfe"),
]
NUMBERS = ("0", "1", "2", "5", "6", "-1", "-2", "-6", "-7", "100", "-100", "7", "8", "15", "23")
BAD = ("x", "", "1.5", "9223372036854775808", " 1", "-0")
RANGES = [(start, end) for start in NUMBERS for end in NUMBERS]
COMMANDS = ("setbit", "getbit", "bitcount", "bitpos", "bitop", "bitfield", "bitfield_ro")

SEQUENCES: dict[str, list[Line]] = {
    "setbit": [
        *("SETBIT s 0 1", "GET s", "SETBIT s 0 0", "SETBIT s 7 1", "GET s", "SETBIT s 100 1"),
        *("GET s", "SETBIT new 7 0", "GET new", "SETBIT new 23 1", "GET new", "SETBIT e 3 1"),
        *("GET e", "SETBIT n 1 1", "GET n", "SETBIT l 1 1", "SETBIT s 4294967296 1"),
        *("SETBIT s -1 1", "SETBIT s 1 2", "SETBIT s 1 -1", "SETBIT s 1", "SETBIT l x 1"),
        *("SETBIT l 1 2", "SETBIT s '#1' 1", "EXPIREAT s 33000000000", "SETBIT s 3 1"),
        *("EXPIRETIME s", *(f"SETBIT s '{n}' 1" for n in BAD), *(f"SETBIT s 1 '{n}'" for n in BAD)),
    ],
    "getbit": [
        *(f"GETBIT s {offset}" for offset in range(50)),
        *("GETBIT n 2", "GETBIT l 0", "GETBIT missing 9", "GETBIT s -1", "GETBIT s 4294967295"),
        *("GETBIT s 4294967296", "GETBIT e 0", "GETBIT s", *(f"GETBIT s '{n}'" for n in BAD)),
    ],
    "bitcount": [
        *("BITCOUNT s", "BITCOUNT n", "BITCOUNT l", "BITCOUNT missing", "BITCOUNT e"),
        *(
            "BITCOUNT far",
            "BITCOUNT far1",
            "BITCOUNT s 0",
            "BITCOUNT missing 0",
            "BITCOUNT s 0 1 x",
        ),
        *("BITCOUNT s 0 1 bit", "BITCOUNT s 0 1 Byte", "BITCOUNT s 0 1 BIT x", "BITCOUNT e 0 -1"),
        *("BITCOUNT s -1 -2 x", "BITCOUNT e 0 0 BIT", "BITCOUNT e -5 -1 BIT", "BITCOUNT"),
        *(f"BITCOUNT s '{n}' 1" for n in BAD),
        *(f"BITCOUNT s 0 '{n}' nope" for n in BAD),
        *(f"BITCOUNT missing '{n}' 1" for n in BAD),
        *(f"BITCOUNT mixed {a} {b} {unit}" for a, b in RANGES for unit in ("", "BYTE", "BIT")),
        *(f"BITCOUNT far1 {a} {b} BIT" for a, b in (("3", "-10"), ("70000", "800000"))),
    ],
    "bitpos": [
        *("BITPOS s 2", "BITPOS s -1", "BITPOS s x", "BITPOS l 1", "BITPOS missing 1"),
        *("BITPOS missing 0", "BITPOS missing 0 5", "BITPOS missing 1 x y z", "BITPOS s"),
        *("BITPOS s 1 0 1 x", "BITPOS s 1 0 1 BIT x", "BITPOS s 1 x y x", "BITPOS s 1 0 x z"),
        *("BITPOS e 1", "BITPOS e 0", "BITPOS e 0 0", "BITPOS e 0 0 -1", "BITPOS e 1 0 -1 BIT"),
        *(
            "BITPOS s 1 0 y BIT",
            "BITPOS far 1 70000",
            "BITPOS far 1 70001",
            "BITPOS far 1 70001 -1",
        ),
        *(f"BITPOS {k} {bit}" for k in ("s", "ones", "zeros", "far", "far1") for bit in (0, 1)),
        *(f"BITPOS {k} {bit} 1" for k in ("s", "ones", "zeros", "far", "far1") for bit in (0, 1)),
        *(f"BITPOS {k} {bit} 1 -1" for k in ("ones", "zeros", "far", "far1") for bit in (0, 1)),
        *(
            f"BITPOS {key} {bit} {a} {b} {unit}"
            for key in ("mixed", "ones")
            for bit in (0, 1)
            for a, b in RANGES
            for unit in ("", "BYTE", "BIT")
        ),
    ],
    "bitop": [
        *("BITOP AND d s n", "GET d", "BITOP or d s n missing", "GET d", "BITOP XOR d s s"),
        *("GET d", "BITOP NOT d s", "GET d", "BITOP NOT d s n", "BITOP NOPE d s", "BITOP AND d"),
        *("BITOP AND d s l", "BITOP AND l s n", "TYPE l", "BITOP NOT d missing", "EXISTS d"),
        *("BITOP AND d missing e", "BITOP AND d s missing", "GET d", "BITOP XOR s s n", "GET s"),
        *("BITOP OR d far1 far s", "GET d", "BITOP AND d far1 far", "GET d", "BITOP XOR d far s"),
        *("GET d", "EXPIREAT d 33000000000", "BITOP OR d s", "EXPIRETIME d", "BITOP NOT d e"),
    ],
    "bitfield": [
        *("BITFIELD b", "EXISTS b", "BITFIELD b GET u8 0", "EXISTS b", "BITFIELD b SET u8 0 255"),
        *("BITFIELD b SET u8 '#1' 300 GET u8 8", "BITFIELD b INCRBY i8 0 -1 GET i8 0 GET u8 0"),
        *("BITFIELD b INCRBY i5 100 1 GET u4 0", "GET b", "BITFIELD b SET i64 3 -1", "GET b"),
        *("BITFIELD b SET i64 0 -9223372036854775808 INCRBY i64 0 -1", "BITFIELD l GET u8 0"),
        *("BITFIELD b OVERFLOW SAT INCRBY i64 0 9223372036854775807 INCRBY i64 0 1", "GET b"),
        "BITFIELD b OVERFLOW FAIL" + " INCRBY u2 100 1" * 4,
        *("BITFIELD new OVERFLOW FAIL SET u4 0 16", "GET new", "BITFIELD l SET u8 0 1"),
        *("BITFIELD s OVERFLOW FAIL SET u8 100 256", "GET s", "BITFIELD_RO s GET u8 0 GET i7 1"),
        *("BITFIELD_RO s SET u8 0 1", "BITFIELD_RO s OVERFLOW SAT", "BITFIELD_RO l GET u8 0"),
        *("BITFIELD_RO l SET u8 0 1", "BITFIELD_RO missing GET i33 4", "BITFIELD s GET u8 1000"),
        *(
            "BITFIELD s GET u8",
            "BITFIELD s SET u8 1",
            "BITFIELD s OVERFLOW",
            "BITFIELD s NOPE u8 1",
        ),
        *(
            "BITFIELD s OVERFLOW NOPE GET u8 0",
            "BITFIELD s overflow wrap get u8 0",
            "BITFIELD s GET",
        ),
        *(
            f"BITFIELD s GET {t} 0"
            for t in ("u0", "u64", "i65", "i64", "x8", "8", "u", "u-1", "U8")
        ),
        *(f"BITFIELD s GET u8 '{at}'" for at in ("-1", "#-1", "#", "x", "#x", "#0", "4294967288")),
        *(f"BITFIELD s GET u8 '{at}'" for at in ("4294967296", "#536870911", "#536870912", "#01")),
        *(f"BITFIELD s SET u8 0 '{n}'" for n in BAD),
        *("BITFIELD n GET u8 0 INCRBY u8 0 1", "GET n", "BITFIELD e SET u1 0 0", "GET e"),
    ],
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequence(pair: Pair, name: str) -> None:
    assert_same(pair, START)
    assert_same(pair, SEQUENCES[name])


@pytest.mark.parametrize("name", COMMANDS)
def test_command_info_equals_that_of_redis(pair: Pair, name: str) -> None:
    assert_same(pair, [f"COMMAND INFO {name}"], in_any_order=True)


@pytest.mark.parametrize("overflow", ["WRAP", "SAT", "FAIL"])
def test_fields_of_every_width(pair: Pair, rng: random.Random, overflow: str) -> None:
    lines: list[Line] = []
    for sign, widths in (("i", range(1, 65)), ("u", range(1, 64))):
        for width in widths:
            edge = 1 << width - 1
            for number in (0, 1, -1, edge, -edge, edge - 1, -edge - 1, 2 * edge, 2 * edge - 1):
                if not -(2**63) <= number < 2**63:
                    continue
                what, at = rng.choice(("SET", "INCRBY")), rng.randrange(80)
                lines.append(f"BITFIELD k OVERFLOW {overflow} {what} {sign}{width} {at} {number}")
                lines.append("GET k")
        lines.append("GET k")
    assert_same(pair, lines)


def test_random_bits(pair: Pair, rng: random.Random) -> None:
    lines: list[Line] = []
    for _ in range(30):
        values = [rng.randbytes(rng.choice((1, 5, 100, 70_000))) for _ in range(3)]
        lines += [("SET", f"k{number}", value) for number, value in enumerate(values)]
        for _ in range(10):
            a, b = rng.randrange(-600_000, 600_000), rng.randrange(-600_000, 600_000)
            unit = rng.choice(("BIT", "BYTE"))
            lines.append(f"BITCOUNT k0 {a} {b} {unit}")
            lines.append(f"BITPOS k1 {rng.randrange(2)} {a} {b} {unit}")
            lines.append(f"SETBIT k2 {rng.randrange(600_000)} {rng.randrange(2)}")
        lines += [f"BITOP {rng.choice(('AND', 'OR', 'XOR'))} d k0 k1 k2", "GET d", "BITOP NOT d d"]
    assert_same(pair, lines)
