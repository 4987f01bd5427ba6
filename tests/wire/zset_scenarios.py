"""Scenarios of test_oracle_zsets.py: commands that pop, combine, draw and scan sorted sets."""

POPPING = {
    "pop": """
        ZADD k 1 a 2 b 2 c 3 d 4 e 5.5 f
        ZPOPMIN k
        ZPOPMAX k
        ZPOPMIN k 2
        ZPOPMAX k 1
        ZPOPMIN k 0
        ZPOPMAX k 100
        EXISTS k
        ZPOPMIN k
        ZPOPMIN k 1
        ZPOPMAX k 0
        ZPOPMIN k -1
        ZPOPMIN k x
        ZPOPMIN k 1 2
        ZPOPMIN k 9223372036854775808
        ZPOPMIN
        SET s string
        ZPOPMIN s
        ZPOPMIN s 0
        ZPOPMAX s x
        ZPOPMAX s 1 2
    """,
    "pop of several": """
        ZADD k 1 a 2 b 3 c 4 d 5 e
        ZMPOP 2 missing k MIN
        ZMPOP 1 k MAX COUNT 2
        ZMPOP 1 k min count 10
        ZMPOP 1 k MIN
        ZADD k 1 a
        ZMPOP 0 k MIN
        ZMPOP -1 k MIN
        ZMPOP x k MIN
        ZMPOP 2 k MIN
        ZMPOP 1 k MID
        ZMPOP 1 k MIN COUNT
        ZMPOP 1 k MIN COUNT 0
        ZMPOP 1 k MIN COUNT -1
        ZMPOP 1 k MIN COUNT x
        ZMPOP 1 k MIN COUNT 1 COUNT 1
        ZMPOP 1 k MIN NOPE
        ZMPOP 1 k
        SET s string
        ZMPOP 2 s k MIN
        ZMPOP 2 missing s MIN
    """,
    "blocking pop of what is there": """
        ZADD k 1 a 2 b 3 c 4 d 5 e 6 f
        BZPOPMIN k 0
        BZPOPMAX missing k 0
        BZPOPMIN missing k k 1.5
        BZMPOP 0 2 missing k MIN
        BZMPOP 0 1 k MAX COUNT 7
        EXISTS k
        ZADD k 1 a
        BZPOPMIN k -1
        BZPOPMAX k -0.5
        BZMPOP -1 1 k MIN
        BZMPOP 0 0 k MIN
        BZMPOP 0 1 k MID
        BZMPOP -1 1 k MID
        BZMPOP 0 1 k MIN COUNT 0
        SET s string
        BZPOPMIN s k 0
        BZPOPMIN missing s 0
        BZMPOP 0 2 missing s MIN
        BZPOPMIN k
        BZMPOP 0 1 k
    """,
    "inside multi": """
        MULTI
        BZPOPMIN a 0
        BZPOPMAX a b 0
        BZMPOP 0 1 a MIN
        ZADD a 1 x 2 y 3 z
        BZPOPMIN b a 0
        BZMPOP 0 2 b a MAX COUNT 5
        ZADD s 1 x
        ZPOPMIN nothing
        EXEC
    """,
}

COMBINING = {
    "union": """
        ZADD a 1 x 2 y 3 z
        ZADD b 10 y 20 z 30 w
        SADD s x w v
        ZUNION 2 a b
        ZUNION 2 a b WITHSCORES
        ZUNION 3 a b s WITHSCORES
        ZUNION 2 a b WEIGHTS 2 0.5 WITHSCORES
        ZUNION 2 a b AGGREGATE MIN WITHSCORES
        ZUNION 2 a b AGGREGATE max WITHSCORES WEIGHTS 1 -1
        ZUNION 2 a a WITHSCORES
        ZUNION 2 a missing WITHSCORES
        ZUNION 1 missing
        ZUNION 1 missing WITHSCORES
        ZUNION 2 a b WEIGHTS 1 2 WEIGHTS 3 4 WITHSCORES
        ZUNION 2 a b AGGREGATE MIN AGGREGATE SUM WITHSCORES
        ZUNION 1 s WITHSCORES
        ZUNION 1 s WEIGHTS 2.5 WITHSCORES
        ZUNIONSTORE to 2 a b
        ZRANGE to 0 -1 WITHSCORES
        ZUNIONSTORE to 3 a b s WEIGHTS 1 2 3 AGGREGATE MAX
        ZRANGE to 0 -1 WITHSCORES
        ZUNIONSTORE a 2 a b
        ZRANGE a 0 -1 WITHSCORES
        ZUNIONSTORE to 1 missing
        EXISTS to
        ZUNIONSTORE to 2 a b WITHSCORES
        ZUNION 0 a
        ZUNION -1 a
        ZUNION x a
        ZUNION 3 a b
        ZUNION 2 a b WEIGHTS 1
        ZUNION 2 a b WEIGHTS 1 x
        ZUNION 2 a b WEIGHTS 1 nan
        ZUNION 2 a b AGGREGATE
        ZUNION 2 a b AGGREGATE AVG
        ZUNION 2 a b NOPE
        ZUNION 2 a b LIMIT 1
        ZUNIONSTORE to 0 a
        ZUNIONSTORE to x a
        SET str string
        ZUNION 2 a str
        ZUNION 2 a str NOPE
        ZUNIONSTORE str 1 a
        TYPE str
    """,
    "infinite weights": """
        ZADD a inf x -inf y 0 z 1 w
        ZADD b -inf x inf y 0 z
        ZUNION 2 a b WITHSCORES
        ZINTER 2 a b WITHSCORES
        ZUNION 2 a b WEIGHTS inf 1 WITHSCORES
        ZINTER 2 a b WEIGHTS inf 1 WITHSCORES
        ZINTER 2 a b WEIGHTS 1 inf AGGREGATE MIN WITHSCORES
        ZINTER 2 a b WEIGHTS 1 inf AGGREGATE MAX WITHSCORES
        ZUNION 2 a b WEIGHTS -inf 0 AGGREGATE MIN WITHSCORES
    """,
    "last digits of sums": """
        ZADD a 0.1 x 5 y
        ZADD b 0.2 x 5 y 6 z
        ZADD c 0.3 x
        ZUNION 3 a b c WITHSCORES
        ZUNION 3 c b a WITHSCORES
        ZINTER 3 b a c WITHSCORES
    """,
    "intersection": """
        ZADD a 1 x 2 y 3 z
        ZADD b 10 y 20 z 30 w
        SADD s x y v
        ZINTER 2 a b
        ZINTER 2 a b WITHSCORES
        ZINTER 3 a b s WITHSCORES
        ZINTER 2 a b WEIGHTS 2 0.5 AGGREGATE MAX WITHSCORES
        ZINTER 2 a a WITHSCORES
        ZINTER 2 a missing
        ZINTERSTORE to 2 a b WEIGHTS 1 2
        ZRANGE to 0 -1 WITHSCORES
        ZINTERSTORE to 2 a missing
        EXISTS to
        ZINTERCARD 2 a b
        ZINTERCARD 2 a b LIMIT 1
        ZINTERCARD 2 a b LIMIT 0
        ZINTERCARD 2 a b LIMIT 1 LIMIT 5
        ZINTERCARD 1 a LIMIT 9
        ZINTERCARD 2 a missing
        ZINTERCARD 2 a s
        ZINTERCARD 2 a b LIMIT -1
        ZINTERCARD 2 a b LIMIT x
        ZINTERCARD 2 a b LIMIT
        ZINTERCARD 2 a b WITHSCORES
        ZINTERCARD 2 a b WEIGHTS 1 2
        ZINTERCARD 0 a
        ZINTER 0 a
        ZINTERSTORE to 0 a
        SET str string
        ZINTER 2 missing str
        ZINTERCARD 2 a str
    """,
    "difference": """
        ZADD a 1 x 2 y 3 z
        ZADD b 10 y
        SADD s x
        ZDIFF 2 a b
        ZDIFF 2 a b WITHSCORES
        ZDIFF 3 a b s WITHSCORES
        ZDIFF 2 a a
        ZDIFF 1 a WITHSCORES
        ZDIFF 2 missing a
        ZDIFF 2 a missing
        ZDIFF 2 s b WITHSCORES
        ZDIFFSTORE to 2 a b
        ZRANGE to 0 -1 WITHSCORES
        ZDIFFSTORE to 2 a a
        EXISTS to
        ZDIFF 2 a b WEIGHTS 1 2
        ZDIFF 2 a b AGGREGATE MIN
        ZDIFFSTORE to 2 a b WITHSCORES
        ZDIFF 0 a
        ZDIFF 2 a
        SET str string
        ZDIFF 2 a str
    """,
    "random members": """
        ZADD k 1.5 a
        ZRANDMEMBER k
        ZRANDMEMBER k 5
        ZRANDMEMBER k -3
        ZRANDMEMBER k 5 WITHSCORES
        ZRANDMEMBER k -2 WITHSCORES
        ZRANDMEMBER k 0
        ZRANDMEMBER k 0 WITHSCORES
        ZRANDMEMBER missing
        ZRANDMEMBER missing 3
        ZRANDMEMBER missing -3 WITHSCORES
        ZRANDMEMBER k x
        ZRANDMEMBER k 1 NOPE
        ZRANDMEMBER k 1 WITHSCORES x
        ZRANDMEMBER k 9223372036854775807
        ZRANDMEMBER k -9223372036854775808
        ZRANDMEMBER k 4611686018427387904 WITHSCORES
        ZRANDMEMBER k -4611686018427387904 WITHSCORES
        ZRANDMEMBER k -9223372036854775808 WITHSCORES
        ZRANDMEMBER k 9223372036854775808
        SET s string
        ZRANDMEMBER s
        ZRANDMEMBER s 1
        ZRANDMEMBER s x
    """,
    "scan": """
        ZADD k 1 a 2.5 b inf c 3 ab
        ZSCAN k 0
        ZSCAN k 0 MATCH a*
        ZSCAN k 0 COUNT 1
        ZSCAN k 0 MATCH * COUNT 100
        ZSCAN k 0 MATCH nope
        ZSCAN k x
        ZSCAN k 0 COUNT 0
        ZSCAN k 0 COUNT x
        ZSCAN k 0 MATCH
        ZSCAN k 0 TYPE zset
        ZSCAN missing 0
        ZSCAN missing x
        ZSCAN missing 0 COUNT x
        ZSCAN missing 0 NOPE
        SET s string
        ZSCAN s 0
        ZSCAN s x
        ZSCAN s 0 COUNT x
    """,
    "keys": """
        ZADD k 1 a 2 b
        TYPE k
        OBJECT ENCODING k
        COPY k twin
        ZINCRBY twin 5 a
        ZRANGE k 0 -1 WITHSCORES
        ZRANGE twin 0 -1 WITHSCORES
        RENAME twin other
        MOVE other 1
        EXPIRE k 1000
        ZADD k 3 c
        PERSIST k
        GET k
        LPUSH k x
        SCAN 0 TYPE zset COUNT 100
        DEL k
    """,
}
