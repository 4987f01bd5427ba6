"""RDB files of all forms, and ways to damage them."""

import random
import struct

from holdfast.store.change.change_log import ChangeLog
from holdfast.store.rdb.crc64 import crc64
from holdfast.store.rdb.file_writer import FORMATS, RdbWriter
from holdfast.store.rdb.packed import packed_listpack
from holdfast.store.rdb.plain import Plain, plain_of
from holdfast.store.rdb.primitives import length, string
from holdfast.store.values.stream import Stream
from tests.store.rdb.rdb_bytes import REDIS_86, VALKEY_9, module_id, rdb

# Numbers that stand at the borders of lengths, types and opcodes.
BORDERS = (0, 1, 0x3F, 0x40, 0x7F, 0x80, 0x81, 0xBF, 0xC0, 0xC3, 0xE0, 0xF3, 0xFB, 0xFE, 0xFF)


def written(rng: random.Random, name: str) -> bytes:
    """Values of all types, as we write them."""
    log, stream = ChangeLog(), Stream(1)
    for number in range(1, 12):
        stream.add(number << 64, (b"f", b"%d" % number, b"g", rng.randbytes(5)), log)
    stream.set_group(b"g", 3 << 64, 3, log)
    stream.see_consumer(stream.groups[b"g"], b"me", 1234, log)
    stream.assign(stream.groups[b"g"], 2 << 64, (b"me", 77, 3), log)
    fields = [(b"a", b"1", None), (b"b", b"2", None if name == "redis7" else 1_800_000_000_000)]
    blocks: list[bytes] = []
    writer = RdbWriter(blocks.append, FORMATS[name])
    writer.begin({b"redis-ver": b"7.2.0", b"ctime": b"1700000000"})
    writer.library(b"#!lua name=l\nredis.register_function('f', function() return 1 end)")
    for database in (0, 3):
        writer.database(database, 5, 1)
        writer.entry(b"string", Plain("string", rng.randbytes(30)), 4_000_000_000_000)
        writer.entry(b"list", Plain("list", [rng.randbytes(9), b"", b"12"]), None)
        writer.entry(b"set", Plain("set", [b"a", b"b", b"c"]), None)
        writer.entry(b"zset", Plain("zset", [(b"a", 1.5), (b"b", 1.0)]), None)
        writer.entry(b"hash", Plain("hash", fields), None)
        writer.entry(b"stream", plain_of(stream), None)
    writer.end()
    return b"".join(blocks)


def packed(rng: random.Random) -> bytes:
    """The packed forms of Redis, compressed strings, numbers, a module, a cluster."""
    flat = packed_listpack([b"a", 1, b"b", -70_000, rng.randbytes(70), b"x"])
    ziplist = struct.pack("<IIH", 25, 20, 3) + b"\x00\x02ab\x04\xfe\x05\x03\xc0\x10\x00\xff"
    intset = struct.pack("<II", 2, 3) + struct.pack("<hhh", -5, 1, 300)
    zipmap = b"\x02\x01a\x01\x001\x01b\x01\x002\xff"
    compressed = b"\xc3" + length(5) + length(29) + b"\x00a\xe0\x13\x00"
    records = [
        b"\x00" + string(b"int8") + b"\xc0\x85",
        b"\x00" + string(b"int32") + b"\xc2\x01\x02\x03\x04",
        b"\x00" + string(b"lzf") + compressed,
        b"\x10" + string(b"hash") + string(flat),
        b"\x12" + string(b"list") + b"\x02" + b"\x02" + string(flat) + b"\x01" + string(b"plain"),
        b"\x14" + string(b"set") + string(flat),
        b"\x0a" + string(b"ziplist") + string(ziplist),
        b"\x0b" + string(b"intset") + string(intset),
        b"\x09" + string(b"zipmap") + string(zipmap),
        b"\x03" + string(b"zset") + b"\x02\x01a\x031.5\x01b\xfe",
        b"\xf4\x01\x02\x03",
        b"\x07" + string(b"module") + module_id("vectorset") + b"\x02\x05\x05\x01x\x00",
    ]
    return rdb(*records, header=REDIS_86)


def sources(rng: random.Random) -> list[bytes]:
    expiring = b"\x16" + string(b"h") + b"\x01\x01a\x011" + b"\xff" * 8
    return [
        *(written(rng, name) for name in FORMATS),
        packed(rng),
        rdb(expiring, header=VALKEY_9),
    ]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The same with one to three changes. Every other time its checksum is made right again, so
    that the damage must be found elsewhere, or does no harm."""
    body = bytearray(data[:-8])
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(body)) if body else 0
        kind = rng.randrange(6)
        if kind == 0 and body:
            body[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and body:
            body[at] = rng.choice(BORDERS)
        elif kind == 2:
            del body[at : at + rng.choice((1, 1, 4, 30, len(body)))]
        elif kind == 3:
            body[at:at] = rng.randbytes(rng.choice((1, 1, 4, 30)))
        elif kind == 4:
            body[at:at] = body[at : at + rng.choice((1, 8, 60))]
        else:
            huge = rng.choice((0x7FFF_FFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1))
            body[at : at + 1] = b"\x81" + huge.to_bytes(8, "big")
    if rng.random() < 0.5:
        return bytes(body) + crc64(bytes(body)).to_bytes(8, "little")
    return bytes(body) + data[-8:]
