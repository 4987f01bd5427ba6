"""Keys of all types in all encodings, several databases, expiries, a library; and how to compare
the contents of two servers."""

import random
from collections.abc import Iterator
from itertools import chain
from typing import Any

import redis

from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.primitives import Reader, finished
from holdfast.store.rdb.value_codec import REDIS_LOADERS, VALKEY_LOADERS

LIBRARY = "#!lua name=lib\nredis.register_function('f', function(keys, args) return args[1] end)"
FAR_MS = 4_000_000_000_000
FIRST_OF_VALKEY = 80
ORDERED = ("listpack", "ziplist", "intset", "quicklist", "skiplist", "int", "embstr", "raw")

Contents = dict[tuple[int, bytes], tuple[Any, ...]]


def connect(port: int, database: int = 0) -> redis.Redis:
    return redis.Redis(port=port, db=database, protocol=2)


def texts(rng: random.Random, count: int) -> list[bytes]:
    """Different strings of many kinds: numbers, compressible, random, empty."""
    kinds = (
        lambda: b"%d" % rng.choice((0, 1, -1, 127, 128, -32_769, 2**31, -(2**63), 10**19)),
        lambda: b"%d" % rng.randrange(10**6),
        lambda: b"abc" * rng.randrange(60),
        lambda: rng.randbytes(rng.randrange(70)),
        lambda: b"word%d" % rng.randrange(10**5),
    )
    return list(dict.fromkeys(rng.choice(kinds)() for _ in range(count * 2)))[:count]


def commands(rng: random.Random) -> Iterator[tuple[Any, ...]]:
    for number, text in enumerate((b"", b"1", b"-123456", b"text", b"long " * 50, b"a" * 5000)):
        yield "SET", f"string:{number}", text
    yield "SET", "string:random", rng.randbytes(30_000)
    yield "SET", b"\xff\x00 name\r\n", b"\x00\xff"
    yield "SETBIT", "string:bits", 5000, 1
    yield "PFADD", "string:hll", *texts(rng, 300)
    for size in (1, 20, 200, 1200):
        elements = texts(rng, size)
        integers = [rng.randrange(10 ** rng.choice((2, 4, 9, 18))) for _ in elements]
        scores = [rng.choice((0, 1.5, -3, "inf", "-inf", 1e300, rng.random())) for _ in elements]
        yield "RPUSH", f"list:{size}", *elements
        yield "SADD", f"set:{size}", *elements
        yield "SADD", f"integers:{size}", *integers
        yield "HSET", f"hash:{size}", *chain(*((e, rng.choice(elements)) for e in elements))
        yield "ZADD", f"zset:{size}", *chain(*zip(scores, elements, strict=True))
    yield "RPUSH", "list:large", b"x" * 20_000, b"y" * 9000, b"z"
    for number in range(1, 260):
        fields = texts(rng, 4) if number % 7 == 0 else (b"f", b"%d" % number, b"g", b"x" * number)
        yield "XADD", "stream", f"{number}-{number % 3 + 1}", *fields
    yield "XDEL", "stream", "5-3", "100-2"
    yield "XGROUP", "CREATE", "stream", "group", "0"
    yield "XGROUP", "CREATE", "stream", "ahead", "200-1", "ENTRIESREAD", "150"
    yield "XREADGROUP", "GROUP", "group", "one", "COUNT", 30, "STREAMS", "stream", ">"
    yield "XREADGROUP", "GROUP", "group", "two", "COUNT", 5, "STREAMS", "stream", ">"
    yield "XACK", "stream", "group", "3-1", "4-2"
    yield "XGROUP", "CREATECONSUMER", "stream", "ahead", "idle"
    yield "XADD", "stream:empty", "1-1", "f", "v"
    yield "XTRIM", "stream:empty", "MAXLEN", 0
    yield "PEXPIREAT", "string:1", FAR_MS
    yield "PEXPIREAT", "hash:20", FAR_MS + 1
    yield "FUNCTION", "LOAD", LIBRARY


def field_expiries(rng: random.Random) -> Iterator[tuple[Any, ...]]:
    """For servers that have them."""
    for size in (20, 1200):
        fields = chain(*((f"f{n}", f"v{n}") for n in range(size)))
        yield "HSET", f"expiring:{size}", *fields
        names = [f"f{n}" for n in range(0, size, 4)]
        yield "HPEXPIREAT", f"expiring:{size}", FAR_MS + size, "FIELDS", len(names), *names


def fill(port: int, rng: random.Random, *, expiring_fields: bool = False) -> None:
    with connect(port) as client, client.pipeline(transaction=False) as pipe:
        for command in commands(rng):
            pipe.execute_command(*command)
        for command in field_expiries(rng) if expiring_fields else ():
            pipe.execute_command(*command)
        pipe.execute_command("SELECT", 3)
        pipe.execute_command("SET", "string:1", "of database 3")
        pipe.execute_command("RPUSH", "list", "a", "b")
        pipe.execute_command("SELECT", 15)
        pipe.execute_command("SET", "last", "x", "PXAT", FAR_MS)
        pipe.execute()


def contents(port: int, databases: int = 16) -> Contents:
    """Of every key the expiry and the value, without its order where a server has none."""
    return {
        (database, name): (client.execute_command("PEXPIRETIME", name), canonical(dump))
        for database, client, name, dump in _keys(port, databases)
    }


def raw_contents(port: int, databases: int = 16) -> Contents:
    """Of every key the expiry and the bytes of DUMP. The order of tables of hashes differs between
    starts of a server: of those there is a digest. Streams may lack nodes that were emptied."""
    return {
        (database, name): (
            client.execute_command("PEXPIRETIME", name),
            encoding,
            dump if encoding in ORDERED else client.execute_command("DEBUG", "DIGEST-VALUE", name),
        )
        for database, client, name, dump in _keys(port, databases)
        for encoding in [client.object("ENCODING", name).decode()]
    }


def _keys(port: int, databases: int) -> Iterator[tuple[int, Any, bytes, bytes]]:
    for database in range(databases):
        with connect(port, database) as client:
            for name in client.keys("*"):
                yield database, client, name, client.dump(name)


def canonical(dump: bytes) -> tuple[str, Any]:
    version = int.from_bytes(dump[-10:-8], "little")
    loaders = VALKEY_LOADERS if version >= FIRST_OF_VALKEY else REDIS_LOADERS
    return unordered(finished(loaders[dump[0]](Reader(dump[1:-10]))))


def unordered(plain: Plain) -> tuple[str, Any]:
    content = plain.content
    if plain.type in ("set", "hash", "zset"):
        content = sorted(content)
    elif plain.type == "stream":
        groups = [
            group._replace(consumers=sorted(group.consumers), pending=sorted(group.pending))
            for group in sorted(content.groups)
        ]
        content = content._replace(groups=groups)
    return plain.type, content


def functions(port: int) -> bytes:
    with connect(port) as client:
        code: bytes = client.execute_command("FUNCTION", "LIST", "WITHCODE")[0][-1]
        return code


def without_seen(found: Contents) -> Contents:
    """Without the times at which consumers were seen: no command makes them."""
    for place, (expiry, (kind, content)) in found.items():
        if kind == "stream":
            groups = [
                group._replace(consumers=[name for name, _ in group.consumers])
                for group in content.groups
            ]
            found[place] = (expiry, (kind, content._replace(groups=groups)))
    return found
