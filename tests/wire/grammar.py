"""The parts of generated commands: the grammar of every command, the kinds of arguments, and the
data that every sequence starts from.

A line of GRAMMAR is a command as its documentation writes it. Upper case is sent as it is, lower
case names a kind of argument (KINDS), `[x]` may be left out, `(a|b)` is one of them, `x...` is x
once or more. `generators.py` reads it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

Argv = tuple[bytes, ...]

GRAMMAR = {
    "string": """
        APPEND key value
        DECR key
        DECRBY key increment
        GET key
        GETDEL key
        GETEX key [(EX seconds|PX milliseconds|EXAT unix_s|PXAT unix_ms|PERSIST)]
        GETRANGE key index index
        GETSET key value
        INCR key
        INCRBY key increment
        INCRBYFLOAT key float
        LCS key key [LEN] [IDX] [MINMATCHLEN count] [WITHMATCHLEN]
        MGET key...
        MSET (key value)...
        MSETNX (key value)...
        PSETEX key milliseconds value
        SET key value
        SET key value [(NX|XX)] [GET] [(EX seconds|PX milliseconds|KEEPTTL)]
        SET key value [(NX|XX)] [GET] [(EXAT unix_s|PXAT unix_ms|KEEPTTL)]
        SETEX key seconds value
        SETNX key value
        SETRANGE key offset value
        STRLEN key
        SUBSTR key index index
        """,
    "generic": """
        COPY key key [DB db] [REPLACE]
        DEL key...
        DUMP key
        EXISTS key...
        EXPIRE key seconds [(NX|XX|GT|LT)]
        EXPIREAT key unix_s [(NX|XX|GT|LT)]
        EXPIRETIME key
        KEYS pattern
        MOVE key db
        OBJECT ENCODING key
        OBJECT FREQ key
        OBJECT IDLETIME key
        OBJECT REFCOUNT key
        PERSIST key
        PEXPIRE key milliseconds [(NX|XX|GT|LT)]
        PEXPIREAT key unix_ms [(NX|XX|GT|LT)]
        PEXPIRETIME key
        PTTL key
        RENAME key key
        RENAMENX key key
        RESTORE key (milliseconds|zero) dumped [REPLACE] [ABSTTL] [(IDLETIME count|FREQ count)]
        SCAN cursor COUNT many [MATCH pattern] [TYPE type]
        SORT key [BY by] [LIMIT index count] [GET get] [(ASC|DESC)] [ALPHA] [STORE key]
        SORT_RO key [BY by] [LIMIT index count] [GET get] [(ASC|DESC)] [ALPHA]
        TOUCH key...
        TTL key
        TYPE key
        UNLINK key...
        WAIT zero zero
        """,
    "list": """
        BLMOVE key key (LEFT|RIGHT) (LEFT|RIGHT) timeout
        BLMPOP timeout numkeys key... (LEFT|RIGHT) [COUNT count]
        BLPOP key... timeout
        BRPOP key... timeout
        BRPOPLPUSH key key timeout
        LINDEX key index
        LINSERT key (BEFORE|AFTER) element element
        LLEN key
        LMOVE key key (LEFT|RIGHT) (LEFT|RIGHT)
        LMPOP numkeys key... (LEFT|RIGHT) [COUNT count]
        LPOP key [count]
        LPOS key element [RANK count] [COUNT count] [MAXLEN count]
        LPUSH key element...
        LPUSHX key element...
        LRANGE key index index
        LREM key count element
        LSET key index element
        LTRIM key index index
        RPOP key [count]
        RPOPLPUSH key key
        RPUSH key element...
        RPUSHX key element...
        """,
    "bitmap": """
        BITCOUNT key [index index [(BIT|BYTE)]]
        BITFIELD key (GET bit_type bit_at)... [OVERFLOW (WRAP|SAT|FAIL)] [SET bit_type bit_at bits]
        BITFIELD key OVERFLOW (WRAP|SAT|FAIL) (INCRBY bit_type bit_at bits)...
        BITFIELD key [SET bit_type bit_at bits] [INCRBY bit_type bit_at bits] [GET bit_type bit_at]
        BITFIELD_RO key (GET bit_type bit_at)...
        BITOP (AND|OR|XOR) key key...
        BITOP NOT key key
        BITPOS key bit [index [index [(BIT|BYTE)]]]
        GETBIT key bit_at
        SETBIT key bit_at bit
        """,
    "hyperloglog": """
        PFADD hll element...
        PFADD key [element]
        PFCOUNT hll
        PFCOUNT hll key...
        PFMERGE hll hll...
        PFMERGE key key...
        """,
    "hash": """
        HDEL hash field...
        HEXISTS hash field
        HGET hash field
        HGETALL hash
        HINCRBY hash field increment
        HINCRBYFLOAT hash field float
        HKEYS hash
        HLEN hash
        HMGET hash field...
        HMSET hash (field value)...
        HRANDFIELD hash many [WITHVALUES]
        HSCAN hash cursor COUNT many [MATCH pattern]
        HSET hash (field value)...
        HSETNX hash field value
        HSTRLEN hash field
        HVALS hash
        """,
    "set": """
        SADD set member...
        SCARD set
        SDIFF set...
        SDIFFSTORE set set...
        SINTER set...
        SINTERCARD numkeys set... [LIMIT count]
        SINTERSTORE set set...
        SISMEMBER set member
        SMEMBERS set
        SMISMEMBER set member...
        SMOVE set set member
        SPOP set many
        SRANDMEMBER set many
        SREM set member...
        SSCAN set cursor COUNT many [MATCH pattern]
        SUNION set...
        SUNIONSTORE set set...
        """,
    "pubsub": """
        PUBLISH value value
        PUBSUB CHANNELS [pattern]
        PUBSUB NUMPAT
        PUBSUB NUMSUB value...
        PUBSUB SHARDCHANNELS [pattern]
        PUBSUB SHARDNUMSUB value...
        PUBSUB word
        PUNSUBSCRIBE [value]
        SPUBLISH value value
        SUNSUBSCRIBE [value]
        UNSUBSCRIBE [value]
        """,
    "sorted-set": """
        BZMPOP timeout numkeys zset... (MIN|MAX) [COUNT count]
        BZPOPMAX zset... timeout
        BZPOPMIN zset... timeout
        ZADD zset (score member)...
        ZADD zset (NX|XX|GT|LT|CH|INCR|GT CH|XX INCR) score member
        ZADD zset (NX CH|XX CH|GT CH|LT) (score member)...
        ZADD lex (nothing member)...
        ZCARD zset
        ZCOUNT zset bound bound
        ZDIFF numkeys zset... [WITHSCORES]
        ZDIFFSTORE zset numkeys zset...
        ZINCRBY zset score member
        ZINTER numkeys zset... [AGGREGATE (SUM|MIN|MAX)] [WITHSCORES]
        ZINTERCARD numkeys zset... [LIMIT count]
        ZINTERSTORE zset two zset zset [WEIGHTS weight weight] [AGGREGATE (SUM|MIN|MAX)]
        ZLEXCOUNT lex lex_bound lex_bound
        ZMPOP numkeys zset... (MIN|MAX) [COUNT count]
        ZMSCORE zset member...
        ZPOPMAX zset [count]
        ZPOPMIN zset [count]
        ZRANDMEMBER zset many [WITHSCORES]
        ZRANGE lex lex_bound lex_bound BYLEX [REV] [LIMIT index count]
        ZRANGE zset bound bound BYSCORE [REV] [LIMIT index count] [WITHSCORES]
        ZRANGE zset index index [REV] [WITHSCORES]
        ZRANGEBYLEX lex lex_bound lex_bound [LIMIT index count]
        ZRANGEBYSCORE zset bound bound [WITHSCORES] [LIMIT index count]
        ZRANGESTORE zset lex lex_bound lex_bound BYLEX [REV] [LIMIT index count]
        ZRANGESTORE zset zset bound bound BYSCORE [REV] [LIMIT index count]
        ZRANGESTORE zset zset index index [REV]
        ZRANK zset member
        ZREM lex member...
        ZREM zset member...
        ZREMRANGEBYLEX lex lex_bound lex_bound
        ZREMRANGEBYRANK zset index index
        ZREMRANGEBYSCORE zset bound bound
        ZREVRANGE zset index index [WITHSCORES]
        ZREVRANGEBYLEX lex lex_bound lex_bound [LIMIT index count]
        ZREVRANGEBYSCORE zset bound bound [WITHSCORES] [LIMIT index count]
        ZREVRANK zset member
        ZSCAN zset cursor COUNT many [MATCH pattern]
        ZSCORE zset member
        ZUNION two zset zset [WEIGHTS weight weight] [AGGREGATE (SUM|MIN|MAX)] [WITHSCORES]
        ZUNIONSTORE zset numkeys zset... [AGGREGATE (SUM|MIN|MAX)]
        """,
    "geo": """
        GEOADD geo (lon lat member)...
        GEOADD geo (NX|XX|CH|NX CH|XX CH) (lon lat member)...
        GEODIST geo member member [unit]
        GEOHASH geo member...
        GEOPOS geo member...
        GEORADIUS geo lon lat radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count ANY] [ASC]
        GEORADIUS geo lon lat radius unit [(STORE|STOREDIST) geo] [DESC]
        GEORADIUSBYMEMBER geo member radius unit [WITHCOORD] [WITHDIST] [WITHHASH] [(ASC|DESC)]
        GEORADIUSBYMEMBER geo member radius unit [(STORE|STOREDIST) geo] [COUNT count ANY]
        GEORADIUSBYMEMBER_RO geo member radius unit [WITHDIST] [COUNT count ANY] [(ASC|DESC)]
        GEORADIUS_RO geo lon lat radius unit [WITHDIST] [COUNT count ANY] [(ASC|DESC)]
        GEOSEARCH geo FROMLONLAT lon lat BYBOX radius radius unit [(ASC|DESC)] [WITHDIST]
        GEOSEARCH geo FROMMEMBER member BYRADIUS radius unit [(ASC|DESC)] [COUNT count ANY]
        GEOSEARCHSTORE geo geo FROMLONLAT lon lat BYRADIUS radius unit [STOREDIST]
        GEOSEARCHSTORE geo geo FROMMEMBER member BYBOX radius radius unit [STOREDIST]
        """,
    "transactions": """
        DISCARD
        EXEC
        EXEC
        MULTI
        MULTI
        UNWATCH
        WATCH key...
        """,
    "connection": """
        AUTH value
        AUTH value value
        CLIENT CACHING (YES|NO)
        CLIENT GETNAME
        CLIENT GETREDIR
        CLIENT ID
        CLIENT INFO
        CLIENT KILL no_client
        CLIENT KILL ID no_id
        CLIENT LIST TYPE client_type
        CLIENT LIST ID no_id
        CLIENT NO-EVICT (ON|OFF)
        CLIENT REPLY word
        CLIENT REPLY ON
        CLIENT SETNAME name
        CLIENT TRACKING OFF
        CLIENT TRACKINGINFO
        CLIENT UNBLOCK no_id [(TIMEOUT|ERROR)]
        CLIENT UNPAUSE
        CLIENT word
        ECHO value
        HELLO [protocol [SETNAME name]]
        PING [value]
        RESET
        SELECT db
        """,
    "server": """
        COMMAND COUNT word
        COMMAND GETKEYS command value...
        COMMAND GETKEYS (LMPOP|BLMPOP value) count key... LEFT
        COMMAND GETKEYSANDFLAGS command value...
        COMMAND INFO command...
        COMMAND LIST FILTERBY word word
        CONFIG GET parameter
        CONFIG RESETSTAT
        CONFIG REWRITE
        CONFIG SET parameter config_value
        CONFIG word
        DBSIZE
        FLUSHALL [(ASYNC|SYNC)]
        FLUSHDB [(ASYNC|SYNC)]
        INFO section...
        LASTSAVE
        ROLE
        SAVE
        SLOWLOG GET count
        SLOWLOG LEN
        SLOWLOG RESET
        SWAPDB db db
        TIME
        """,
}
GRAMMAR["stream"] = """
    XACK stream group entry...
    XADD stream new_entry field value
    XADD stream new_entry (field value)...
    XADD stream (NOMKSTREAM|) new_entry (field value)...
    XADD stream (MAXLEN (roughly|) count|MINID (roughly|) entry) new_entry (field value)...
    XADD stream (MAXLEN tilde count|MINID tilde entry) LIMIT count new_entry field value
    XAUTOCLAIM stream group consumer min_idle entry [COUNT few] [JUSTID]
    XCLAIM stream group consumer min_idle entry... [FORCE] [JUSTID] [LASTID entry]
    XCLAIM stream group consumer min_idle entry [IDLE zero] [TIME zero] [RETRYCOUNT count] [FORCE]
    XDEL stream entry...
    XGROUP CREATE stream group last_entry [MKSTREAM] [ENTRIESREAD count]
    XGROUP CREATE stream group last_entry MKSTREAM
    XGROUP CREATECONSUMER stream group consumer
    XGROUP DELCONSUMER stream group consumer
    XGROUP DESTROY stream group
    XGROUP SETID stream group last_entry [ENTRIESREAD count]
    XINFO CONSUMERS stream group
    XINFO GROUPS stream
    XINFO STREAM stream [FULL] [COUNT count]
    XLEN stream
    XPENDING stream group
    XPENDING stream group (IDLE min_idle|) entry_bound entry_bound count [consumer]
    XRANGE stream entry_bound entry_bound [COUNT count]
    XREAD (COUNT count|) (BLOCK block_ms|) STREAMS stream last_entry
    XREAD (BLOCK block_ms|) STREAMS stream stream last_entry last_entry
    XREADGROUP GROUP group consumer (COUNT count|) (BLOCK block_ms|) STREAMS stream unread
    XREADGROUP GROUP group consumer (NOACK|) (BLOCK block_ms|) STREAMS stream unread
    XREADGROUP GROUP group consumer BLOCK block_ms STREAMS stream stream unread unread
    XREVRANGE stream entry_bound entry_bound [COUNT count]
    XSETID stream entry [ENTRIESADDED count] [MAXDELETEDID entry]
    XTRIM stream (MAXLEN (roughly|) count|MINID (roughly|) entry)
    XTRIM stream (MAXLEN tilde count|MINID tilde entry) LIMIT count
    """
GROUP_WEIGHTS = {
    "string": 30, "generic": 25, "list": 30, "transactions": 8, "connection": 5, "server": 3,
    "pubsub": 2,
    "bitmap": 10, "hyperloglog": 4, "hash": 15, "set": 15,
    "sorted-set": 25, "geo": 8,
    "stream": 25,
}  # fmt: skip

INT64_MAX, INT64_MIN = b"9223372036854775807", b"-9223372036854775808"
BAD_NUMBERS = [
    b"", b"abc", b" 1", b"1 ", b"+1", b"01", b"-0", b"1.0", b"1e3", b"0x10", b"--1", b"1\x00",
    b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"9" * 25,
]  # fmt: skip
EDGE_NUMBERS = [INT64_MAX, INT64_MIN, b"9223372036854775806", b"2147483648", b"-2147483649"]
BAD_TIMES = [
    b"0", b"-1", b"-1000", b"9223372036854776", b"-9223372036854776", b"9223372036854775",
    b"9223370000000000", b"-9223372036854775", *EDGE_NUMBERS, *BAD_NUMBERS,
]  # fmt: skip

BAD_CURSORS = [b"abc", b"1 ", b"1.5", b"99999999999999999999999"]

KEYS = [
    b"str", b"int", b"float", b"long", b"max", b"ttl", b"list", b"list2", b"single", b"nums",
    b"listttl", b"missing", b"missing2", b"", b"bin\x00\xff\r\n", b"hash", b"hash2", b"set",
    b"ints",
    b"zset", b"zset2", b"geo",
    b"stream", b"stream2",
]  # fmt: skip
# The data before every sequence. A time to live is absolute, so that both servers have the same.
FUTURE_MS = b"4102444800000"
SEED: list[Argv] = [
    (b"SET", b"str", b"hello world"),
    (b"SET", b"int", b"42"),
    (b"SET", b"float", b"3.25"),
    (b"SET", b"long", b"ohmytext" * 25),
    (b"SET", b"max", INT64_MAX),
    (b"SET", b"ttl", b"12", b"PXAT", FUTURE_MS),
    (b"RPUSH", b"list", b"a", b"b", b"c", b"a", b"", b"42"),
    (b"RPUSH", b"list2", *(b"%d" % n for n in range(2000))),  # several chunks, with us
    (b"RPUSH", b"single", b"x"),
    (b"RPUSH", b"nums", b"3", b"1.5", b"-2", b"10"),
    (b"RPUSH", b"listttl", b"a", b"b"),
    (b"PEXPIREAT", b"listttl", FUTURE_MS),
    (b"PFADD", b"hll", b"a", b"b", b"c"),
    (b"HSET", b"hash", b"a", b"1", b"b", b"two", b"", b"", b"42", b"1.5"),
    (b"HSET", b"hash2", *(b"%d" % n for n in range(1200))),  # more than a listpack takes
    (b"SADD", b"set", b"a", b"b", b"", b"42"),
    (b"SADD", b"ints", b"42", b"-7", b"1"),
    (b"ZADD", b"zset", b"1", b"a", b"2.5", b"b", b"2.5", b"c", b"-inf", b"42", b"1e20", b""),
    (b"ZADD", b"zset2", *(b"%d" % n for n in range(1200))),  # more than a listpack takes
    (b"ZADD", b"lex", *(word for m in b"a b c 42 -7 1 aa B".split() for word in (b"0", m))),
    (b"GEOADD", b"geo", b"13.361389", b"38.115556", b"a", b"15.087269", b"37.502669", b"b"),
    (b"GEOADD", b"geo", b"-122.4", b"37.7", b"c", b"179.9", b"-84", b"42"),
    *((b"XADD", b"stream", b"%d-%d" % (n // 2, n % 2 + 1), b"a", b"%d" % n) for n in range(2, 9)),
    (b"XGROUP", b"CREATE", b"stream", b"g", b"0"),
    (b"XGROUP", b"CREATE", b"stream", b"h", b"2-1", b"ENTRIESREAD", b"3"),
    (b"XREADGROUP", b"GROUP", b"g", b"alice", b"COUNT", b"4", b"STREAMS", b"stream", b">"),
    (b"XADD", b"stream2", b"1-1", b"a", b"b"),
    (b"XGROUP", b"CREATE", b"stream2", b"g", b"$"),
    (b"SELECT", b"1"),
    (b"SET", b"str", b"in database 1"),
    (b"RPUSH", b"list", b"other"),
    (b"SELECT", b"0"),
]

VALUES = [
    b"a", b"b", b"c", b"x", b"", b"42", b"-7", b"3.5", b"hello world", b"\x00\xff\r\n",
    b"y" * 44, b"y" * 45, b"z" * 300, b"1e5", b"12345678901234567890", INT64_MAX,
]  # fmt: skip
WORDS = [
    b"NX", b"XX", b"GT", b"LT", b"EX", b"PX", b"GET", b"KEEPTTL", b"PERSIST", b"COUNT", b"LEFT",
    b"RIGHT", b"BEFORE", b"AFTER", b"RANK", b"MAXLEN", b"MATCH", b"TYPE", b"DB", b"REPLACE", b"IDX",
    b"LEN", b"WITHMATCHLEN", b"ASYNC", b"SYNC", b"nope", b"key", b"",
]  # fmt: skip

# A time that no other command of the sequence uses: `finish` puts it in. Were two the same, GT and
# LT would depend on whether a millisecond passed between them.
EXPIRE_NOW = b"<expire now>"  # not a command: this key's time comes
SECONDS, MILLISECONDS, TIMEOUT = b"<seconds>", b"<milliseconds>", b"<timeout>"
TIMEOUT_MS = b"<timeout in ms>"
ENTRIES = [b"1-1", b"2", b"2-1", b"3-2", b"4-1", b"5-0", b"5-1", b"6-0", b"7-1"]
BAD_ENTRIES = [
    b"x", b"-", b"", b"1-x", b"18446744073709551615-18446744073709551615", b"1-1-1", b"-1", b"8-5",
    b"18446744073709551616",
]  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """Values an argument may have; one in `rarely` is taken from `edges`."""

    values: Sequence[bytes]
    edges: Sequence[bytes] = ()
    rarely: int = 6

    def choose(self, rng: random.Random) -> bytes:
        edge = self.edges and rng.randrange(self.rarely) == 0
        return rng.choice(self.edges if edge else self.values)


_NUMBERS = [*EDGE_NUMBERS, *BAD_NUMBERS]
KINDS = {
    "key": Kind(KEYS),
    "value": Kind(VALUES),
    "element": Kind([b"a", b"b", b"c", b"", b"42", b"x"], VALUES),
    "increment": Kind([b"1", b"-1", b"0", b"10", b"-100"], _NUMBERS, 4),
    "float": Kind(
        [b"1", b"-1.5", b"0", b"0.1", b"3.0e3", b"1e-7", b"100000000000000000000", b"0.333333333"],
        [
            b"inf", b"-inf", b"Infinity", b"nan", b"1e308", b"1e400", b"-1e4932", b"1e5000", b".5",
            b"5.", b"1e", b"0x1p3", b"0x", b"1e-400", b"1.7976931348623157e308", b"3.0000000000001",
            b"17.000000000000000001", *_NUMBERS,
        ],
        3,
    ),
    "index": Kind([b"0", b"1", b"-1", b"2", b"-2", b"3", b"-4", b"5", b"1000", b"-999"], _NUMBERS),
    "offset": Kind([b"0", b"1", b"5", b"11", b"50", b"700"], [b"-1", b"536870912", *_NUMBERS]),
    "bit": Kind([b"0", b"1"], [b"2", b"-1", *BAD_NUMBERS], 4),
    "bit_at": Kind(
        [b"0", b"3", b"8", b"100", b"#1", b"6001"], [b"-1", b"4294967296", *BAD_NUMBERS]
    ),
    "bits": Kind([b"0", b"1", b"-1", b"300", b"-100"], [INT64_MAX, INT64_MIN, *BAD_NUMBERS]),
    "bit_type": Kind([b"u8", b"i5", b"u1", b"i64", b"u63", b"i16"], [b"u64", b"i65", b"u0", b"x"]),
    "hll": Kind([b"hll", b"hll2"], KEYS),
    "hash": Kind([b"hash", b"hash2", b"missing"], KEYS),
    "field": Kind([b"a", b"b", b"c", b"", b"42", b"4"], VALUES),
    "set": Kind([b"set", b"ints", b"missing"], KEYS),
    "member": Kind([b"a", b"b", b"c", b"42", b"-7", b"1"], [*VALUES, *BAD_NUMBERS]),
    "stream": Kind([b"stream", b"stream", b"stream2", b"missing"], KEYS),
    "group": Kind([b"g", b"h"], [b"nobody", b""]),
    "consumer": Kind([b"alice", b"bob"], [b"", b"carol"]),
    "new_entry": Kind([b"5-*", b"4-*", b"6-*", b"7-1"], [b"0-0", b"1-1", b"x", b"9-*"], 12),
    "entry": Kind(ENTRIES, BAD_ENTRIES, 12),
    "entry_bound": Kind([b"-", b"+", b"(2-1", b"(3", *ENTRIES], [b"(+", b"(0", *BAD_ENTRIES]),
    "last_entry": Kind([b"$", b"0", *ENTRIES], BAD_ENTRIES, 12),
    "unread": Kind([b">", b">", b"0", *ENTRIES], [b"$", *BAD_ENTRIES], 12),
    "roughly": Kind([b"~", b"="]),
    "tilde": Kind([b"~"], [b"=", b"0"]),
    "min_idle": Kind([b"0", b"100000000"], [b"-1", *BAD_NUMBERS]),
    "few": Kind([b"1", b"2", b"3"], [b"0", b"-1", *BAD_NUMBERS]),
    "block_ms": Kind([TIMEOUT_MS], [b"-1"]),
    "zset": Kind([b"zset", b"zset2", b"missing"], KEYS),
    "lex": Kind([b"lex"]),
    "nothing": Kind([b"0"]),
    "two": Kind([b"2"], [b"1", b"3", b"x"]),
    "score": Kind(
        [b"1", b"-1.5", b"0", b"0.1", b"3.0e3", b"2.5", b"1e-7", b"0.333333333"],
        [
            b"inf", b"-inf", b"Infinity", b"nan", b"1e308", b"1e400", b"1e-400", b"5e-324", b".5",
            b"5.", b"0x1p3", b"0x", b"1.7976931348623157e308", b"3.0000000000001", *_NUMBERS,
        ],
        4,
    ),
    "weight": Kind([b"1", b"2", b"0.5", b"3.0e3"], [b"inf", b"nan", b"", b"abc", b"1e400"]),
    "bound": Kind(
        [b"-inf", b"+inf", b"0", b"1", b"(1", b"2.5", b"(2.5", b"600", b"(590", b"-2"],
        [b"(", b"((1", b"( 1", b"(inf", b"1e400", b"1\x00x", b"nan", b"[1", *_NUMBERS],
    ),
    "lex_bound": Kind(
        [b"-", b"+", b"[a", b"(a", b"[b", b"(b", b"[5", b"(", b"[B", b"[zz"],
        [b"--", b"+\x00x", b"a", b"", *BAD_NUMBERS],
    ),
    "geo": Kind([b"geo", b"geo", b"missing"], [b"zset", *KEYS]),
    "lon": Kind(
        [b"13.361389", b"15.087269", b"-122.4", b"0", b"180", b"-180", b"2.35", b"100.1"],
        [b"180.1", b"nan", b"inf", *_NUMBERS],
    ),
    "lat": Kind(
        [b"38.115556", b"37.502669", b"37.7", b"0", b"85.05112878", b"-84", b"48.86", b"70"],
        [b"86", b"nan", b"-inf", *_NUMBERS],
    ),
    "radius": Kind([b"0", b"200", b"1000", b"0.5", b"20000", b"1"], [b"inf", b"nan", *_NUMBERS]),
    "unit": Kind([b"m", b"km", b"KM", b"ft", b"mi"], [b"", b"miles"]),
    "count": Kind([b"1", b"2", b"0", b"3", b"-1", b"-2", b"10"], _NUMBERS),
    "many": Kind([b"1000"], [b"0", b"-1", *BAD_NUMBERS]),
    "numkeys": Kind([b"1", b"2", b"3"], [b"0", b"-1", *_NUMBERS], 5),
    "seconds": Kind([SECONDS], BAD_TIMES, 3),
    "milliseconds": Kind([MILLISECONDS], BAD_TIMES, 3),
    "unix_s": Kind([b"4102444800", b"4102444801", b"5000000000"], [b"1", *BAD_TIMES], 3),
    "unix_ms": Kind([FUTURE_MS, b"4102444800001", b"5000000000000"], [b"1", *BAD_TIMES], 3),
    "timeout": Kind([TIMEOUT], [b"-1", b"nan", b"inf", b"1e300", *BAD_NUMBERS], 3),
    "db": Kind([b"0", b"1", b"9"], [b"15", b"16", b"-1", *_NUMBERS]),
    "cursor": Kind([b"0"], BAD_CURSORS),
    "type": Kind([b"string", b"list", b"LIST", b"hash", b"zset", b"nope", b""]),
    "pattern": Kind([
        b"*", b"l*", b"?nt", b"[a-l]*", b"[^s]*", b"\\*", b"str", b"*t*", b"h[", b"", b"[z-a]*",
        b"**", b"*[!a]", b"l\\ist", b"[]*", b"[l", b"*\xff*",
    ]),
    "by": Kind([b"nosort", b"*", b"w_*", b"nums", b""]),
    "get": Kind([b"#", b"*", b"w_*", b"", b"h_*->f"]),
    "dumped": Kind(
        [
            b"\x00\x01v\n\x00\x91\x08\xce\xb2\x198\x8a\xce",
            b"\x01\x02\x01a\x01b\n\x002\xa8\x90~\xd5\x03\x1aE",
        ],
        [b"\x00\x01v\n\x00" + bytes(8), *VALUES],
    ),
    "zero": Kind([b"0"], BAD_NUMBERS),
    "name": Kind([b"me", b"", b"a-b"], [b"a b", b"a\nb", b"\xff", b"~"]),
    "no_id": Kind([b"0", b"-1", b"999999999"], _NUMBERS),
    "no_client": Kind([b"1.2.3.4:5", b"nobody", b""]),
    "protocol": Kind([b"2", b"3"], [b"1", b"4", b"-1", *BAD_NUMBERS]),
    "word": Kind(WORDS),
    "command": Kind([b"get", b"SET", b"blpop", b"lmove", b"expire", b"nope", b"mset", b""]),
    "parameter": Kind([b"maxmemory-policy", b"nope", b"hash-max-ziplist-entries", b"proto-max-*"]),
    "config_value": Kind([b"nope", b"-1", b""]),
    "client_type": Kind([b"normal", b"master", b"replica", b"pubsub", b"slave", b"nope", b""]),
    "section": Kind([b"keyspace", b"server", b"nope", b"all", b"default", b"everything"]),
}  # fmt: skip
