"""Kinds of events that a database announces, as the letters of notify-keyspace-events say them."""

GENERIC, STRING, LIST, SET, HASH, ZSET, STREAM, EXPIRED, EVICTED, NEW, MISS = (
    1 << bit for bit in range(11)
)
