"""cjson, cmsgpack, struct and bit on generated values, good and bad, against redis-server."""

import random

import pytest

from tests.harness import Pair

JSON = [
    *("[]", "{}", "[1,2,3]", '{"a":1}', '"a\\u00e9\\ud83d\\ude00\\n"', '"\\ud800"', '"\\udc00"'),
    *('"\\ud83d\\u0041"', '"\\u12"', '"\\x"', '"abc', "[1,", "[1,]", '{"a"}', '{"a":}', '{"a":1,}'),
    *("{1:2}", "nul", "true", "false", "null", "truex", "tru", "[1 2]", "1", "-1", "1.5", "1e5"),
    *("1E+5", "0x10", "0x1p4", "0x", "01", "-", "+1", ".5", "1.", "inf", "-inf", "nan", "Infinity"),
    *(
        "NaN",
        "nan(abc)",
        "1e400",
        "-1e400",
        "1e-400",
        "",
        " ",
        "  1  ",
        "1 2",
        "\0",
        "1\0",
        "\x001",
    ),
    *("a", "[[[", "[[]]", '{"a":{"b":[]}}', '"\x01"', '"\xff"', "\\", '{"a":1 "b":2}', '"a"b'),
    *('"\\/"', '"\\u0000"', "1e", "1e+", "--1", "-x", "i", "n", "N", "I", "info", '"a\\', '"a\\u'),
    *("12345678901234567890", "0.1", '{"a":1,"a":2}', "[1,2", '{"a":1', '{"a"', "{", "]", "}", ":"),
    *(",", '"\\ud83d\\ude0"', "0", "1 ,", "[true,false,null]", "123456789.123456789"),
]

CALLS = [
    "return cjson.encode({})",
    "return cjson.encode({1, 2, nil, 4})",
    "return cjson.encode({[1]=1, [3]=2})",
    "return cjson.encode({[100]=1})",
    "return cjson.encode({[10]=1})",
    "return cjson.encode({[1.5]=1})",
    "return cjson.encode({[true]=1})",
    "return cjson.encode({[-1]=1})",
    "return cjson.encode({[0]=1})",
    "return cjson.encode(0/0)",
    "return cjson.encode(1/0)",
    "return cjson.encode(nil)",
    "return cjson.encode()",
    "return cjson.encode(1, 2)",
    "return cjson.encode(function() end)",
    "return cjson.encode({a=cjson.null})",
    "return cjson.encode('\\0\\1\\127\\200')",
    "return cjson.encode(12345678901234567)",
    "return cjson.encode(1/3)",
    "return cjson.encode(1e300)",
    "local a = {} for i = 1, 999 do a = {a} end return #cjson.encode(a)",
    "local a = {} for i = 1, 1000 do a = {a} end return #cjson.encode(a)",
    "return type(cjson.decode(('['):rep(1000) .. (']'):rep(1000)))",
    "return type(cjson.decode(('['):rep(1001) .. (']'):rep(1001)))",
    "return cjson.decode()",
    "return cjson.decode(1)",
    "return cjson.decode({})",
    "return {cjson.encode_sparse_array()}",
    "return cjson.encode_max_depth()",
    "return cjson.encode_max_depth(0)",
    "return cjson.encode_max_depth('a')",
    "return cjson.encode_max_depth(0/0)",
    "return cjson.decode_max_depth(0/0)",
    "return cjson.encode_number_precision(0/0)",
    "return cjson.encode(1)",  # none of these has changed anything
    "return cjson.encode_number_precision(20)",
    "return cjson.encode_invalid_numbers('x')",
    "return {cjson._NAME, cjson._VERSION, type(cjson.null), cjson.null}",
    "local c = cjson.new() c.encode_number_precision(3) return c.encode(1/3)",
    "return cmsgpack.pack()",
    "return cmsgpack.pack(nil)",
    "return cmsgpack.pack(1, 2, 3)",
    "return cmsgpack.pack({})",
    "return cmsgpack.pack({a=1})",
    "return cmsgpack.pack({[1.5]=1})",
    "return {cmsgpack.pack(1/0), cmsgpack.pack(1.5), cmsgpack.pack(0.1), cmsgpack.pack(2^63)}",
    "return {cmsgpack.pack(-2^63), cmsgpack.pack(2^64), cmsgpack.pack(-2^53)}",
    "local a = {} for i = 1, 20 do a = {a} end return cmsgpack.pack(a)",
    "return cmsgpack.pack(('x'):rep(70000))",
    "local x = cmsgpack.unpack()",
    "return cmsgpack.unpack('')",
    "return {cmsgpack.unpack('\\1\\2\\3')}",
    "return {cmsgpack.unpack_one('\\1\\2\\3', 1)}",
    "return {cmsgpack.unpack_one('\\1\\2\\3', 4)}",
    "return {cmsgpack.unpack_one('\\1\\2\\3', -1)}",
    "return {cmsgpack.unpack_limit('\\1\\2\\3', 2, 1)}",
    "return {cmsgpack.unpack_limit('\\1\\2\\3', -2)}",
    "return {cmsgpack.unpack_limit('\\1\\2\\3', 0)}",
    "local x = cmsgpack.unpack({})",
    "return struct.pack('z', 1)",
    "return struct.pack('c5', 'abc')",
    "return struct.pack('i33', 1)",
    "return struct.pack('i99999999999', 1)",
    "return struct.pack('!3i', 1)",
    "return struct.pack('i')",
    "return struct.pack('i', 'a')",
    "return struct.pack('s', 5)",
    "return struct.pack()",
    "return struct.size('s')",
    "return struct.size('c0')",
    "return struct.size('!8bd')",
    "return {struct.unpack('s', 'abc')}",
    "return {struct.unpack('bc0', '\\3abcd')}",
    "return {struct.unpack('c0', '\\3abcd')}",
    "return {struct.unpack('i2', 'abc', 0)}",
    "return {struct.unpack('i2', 'abc', -1)}",
    "return {struct.unpack('i16', ('\\255'):rep(16))}",
    "return struct.pack('i16', -1)",
    "return {struct.unpack('i', nil)}",
    "return {struct.unpack('i')}",
    "return {bit.tohex(255), bit.tohex(255, -4), bit.bnot(0), bit.lshift(1, 31), bit.tobit(2^33)}",
    "return {bit.rol(0x12345678, 4), bit.arshift(-256, 4), bit.rshift(-256, 4), bit.bswap(1)}",
    "return bit.band()",
    "return bit.band('a')",
]

AGAIN = "return cjson.encode(cjson.decode(ARGV[1]))"
PACKED = "return cmsgpack.pack(cjson.decode(ARGV[1]))"
# Tables in the order of their content: the order of a map's keys depends on the interpreter.
UNPACKED = """
    local function show(v)
        if type(v) == 'number' then return v == v and string.format('%.17g', v) or 'nan' end
        if type(v) ~= 'table' then return type(v) .. ' ' .. tostring(v) end
        local pairs_shown = {}
        for key, value in pairs(v) do
            pairs_shown[#pairs_shown + 1] = show(key) .. '=' .. show(value)
        end
        table.sort(pairs_shown)
        return '{' .. table.concat(pairs_shown, ',') .. '}'
    end
    local r, o = {pcall(cmsgpack.unpack, ARGV[1])}, {}
    for i = 1, table.maxn(r) do o[i] = show(r[i]) end
    return o
"""
STRUCT_PACKED = """
    local a = {}
    for i = 2, #ARGV do a[i - 1] = tonumber(ARGV[i]) end
    return struct.pack(ARGV[1], unpack(a))
"""
STRUCT_UNPACKED = """
    local r = {pcall(struct.unpack, ARGV[1], ARGV[2])}
    for i = 1, #r do
        local v = r[i]
        if type(v) == 'number' then r[i] = v == v and string.format('%.17g', v) or 'nan' end
    end
    return r
"""


@pytest.mark.parametrize("script", CALLS)
def test_a_call(pair: Pair, script: str) -> None:
    pair.same("EVAL", script, 0)


def test_json_that_is_known_to_be_difficult(pair: Pair) -> None:
    for text in JSON:
        pair.same("EVAL", AGAIN, 0, text.encode("latin-1"))
        pair.same("EVAL", "return cjson.decode(ARGV[1])", 0, text.encode("latin-1"))


class Values:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def json(self, depth: int = 0) -> str:
        rng = self.rng
        kind = rng.randrange(9 if depth < 5 else 6)
        if kind < 2:
            return rng.choice(["null", "true", "false"])
        if kind == 2:
            whole = str(rng.randrange(-(10 ** rng.randrange(1, 18)), 10 ** rng.randrange(1, 18)))
            return rng.choice([whole, repr(rng.uniform(-1e6, 1e6)), "0"])
        if kind < 6:
            parts = ["a", "\\n", f"\\u{rng.randrange(0xD800):04x}", '\\"', "/", " ", "\xff", "\x01"]
            return '"' + "".join(rng.choices(parts, k=rng.randrange(6))) + '"'
        if kind < 8:
            return "[" + ",".join(self.json(depth + 1) for _ in range(rng.randrange(5))) + "]"
        return '{"' + rng.choice("abc") + '":' + self.json(depth + 1) + "}"

    def spoiled(self, text: bytes) -> bytes:
        rng, data = self.rng, bytearray(text)
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randrange(2)] = rng.choice(
                [b"", b"[", b"]", b'"', b"\\", b"1", b"\0"]
            )
        return bytes(data)

    def packed(self) -> bytes:
        codes = (0xC0, 0xC2, 0xCA, 0xCB, 0xCC, 0xCF, 0xD0, 0xD3, 0xD9, 0xDA, 0x91, 0x92, 0x81, 0xA1)
        return bytes(
            self.rng.choice([self.rng.randrange(256), self.rng.choice(codes)])
            for _ in range(self.rng.randrange(1, 14))
        )

    def format(self) -> str:
        letters = [
            "b",
            "B",
            "h",
            "H",
            "l",
            "L",
            "f",
            "d",
            "x",
            ">",
            "<",
            "!",
            "!4",
            "!2",
            "c3",
            "s",
        ]
        sizes = [f"{letter}{size}" for letter in "iI" for size in range(1, 9)]
        return "".join(self.rng.choices(letters + sizes, k=self.rng.randrange(1, 6)))


def test_generated_values(pair: Pair, rng: random.Random) -> None:
    values = Values(rng)
    for _ in range(1500):
        text = values.json().encode("latin-1")
        text = values.spoiled(text) if rng.random() < 0.4 else text
        pair.same("EVAL", AGAIN, 0, text)
        pair.same("EVAL", PACKED, 0, text)
        pair.same("EVAL", UNPACKED, 0, values.packed())
        numbers = [str(rng.randrange(-(2**50), 2**50)) for _ in range(3)]
        numbers += [str(rng.uniform(-10, 10)) for _ in range(3)]
        rng.shuffle(numbers)
        pair.same("EVAL", STRUCT_PACKED, 0, values.format(), *numbers)
        pair.same("EVAL", STRUCT_UNPACKED, 0, values.format(), rng.randbytes(rng.randrange(40)))


def _place(name: str, size: int) -> int:
    """Where Lua 5.1 puts a name in a hash table of so many places."""
    number = len(name)
    for letter in reversed(name.encode()):
        number ^= ((number << 5) + (number >> 2) + letter) & 0xFFFFFFFF
    return number % size


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_small_tables_are_written_in_the_order_of_redis(
    pair: Pair, rng: random.Random, count: int
) -> None:
    """Names that do not collide; of others the order depends on which came first."""
    size = 1 << (count - 1).bit_length()
    names: dict[int, str] = {}
    while len(names) < count:
        name = "".join(rng.choices("abcxyz01", k=rng.randint(1, 20)))
        if not name[0].isdigit():
            names.setdefault(_place(name, size), name)
    shuffled = rng.sample(sorted(names.values()), count)
    text = ", ".join(f"{name}={number}" for number, name in enumerate(shuffled))
    for library in ("cjson.encode", "cmsgpack.pack"):
        pair.same("EVAL", f"return {library}({{{text}}})", 0)


def test_the_order_is_the_same_each_time(pair: Pair) -> None:
    """Also of names that collide, and however the table was made."""
    script = "local t = {} for _, name in ipairs(ARGV) do t[name] = 1 end return cjson.encode(t)"
    names = [f"name{number}" for number in range(32)]
    first = pair.ours.command("EVAL", script, 0, *names)
    assert pair.ours.command("EVAL", script, 0, *reversed(names)) == first
    assert first.count(b"name") == 32
