"""Typed methods for common commands. Generated: edit scripts/client_commands.txt.

As long as it has to be: one method per command, so that editors complete them.
"""

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from holdfast.client.protocol import into
from holdfast.client.protocol.into import Bound, Converters, Key, Pairs, Scores, Side, Value
from holdfast.client.protocol.request import Argument

T = TypeVar("T")
V = TypeVar("V", bound=str | bytes)


class TypedCommands(Converters[V]):
    """V is the type of names and values: str, or bytes."""

    @abstractmethod
    def _run(
        self, args: tuple[Argument, ...], convert: Callable[[Any], T]
    ) -> Coroutine[object, None, T]: ...

    def get(self, key: Key) -> Coroutine[object, None, V | None]:
        """The value of a key, None if the key is missing."""
        return self._run(("GET", key), self._value_or_none)

    def set(
        self,
        key: Key,
        value: Value,
        *,
        ex_s: int | None = None,
        px_ms: int | None = None,
        exat_s: int | None = None,
        pxat_ms: int | None = None,
        keepttl: bool = False,
        nx: bool = False,
        xx: bool = False,
    ) -> Coroutine[object, None, bool]:
        """Set a key; False if nx or xx prevented it."""
        args: tuple[Argument, ...] = ("SET", key, value)
        if ex_s is not None:
            args += ("EX", ex_s)
        if px_ms is not None:
            args += ("PX", px_ms)
        if exat_s is not None:
            args += ("EXAT", exat_s)
        if pxat_ms is not None:
            args += ("PXAT", pxat_ms)
        if keepttl:
            args += ("KEEPTTL",)
        if nx:
            args += ("NX",)
        if xx:
            args += ("XX",)
        return self._run(args, into.truth)

    def set_if(
        self,
        key: Key,
        value: Value,
        *,
        ifeq: Value | None = None,
        ifne: Value | None = None,
        ex_s: int | None = None,
        px_ms: int | None = None,
        exat_s: int | None = None,
        pxat_ms: int | None = None,
        keepttl: bool = False,
    ) -> Coroutine[object, None, bool]:
        """Set a key if its value equals ifeq or differs from ifne; False if not. Redis 8.4."""
        args: tuple[Argument, ...] = ("SET", key, value)
        if ifeq is not None:
            args += ("IFEQ", ifeq)
        if ifne is not None:
            args += ("IFNE", ifne)
        if ex_s is not None:
            args += ("EX", ex_s)
        if px_ms is not None:
            args += ("PX", px_ms)
        if exat_s is not None:
            args += ("EXAT", exat_s)
        if pxat_ms is not None:
            args += ("PXAT", pxat_ms)
        if keepttl:
            args += ("KEEPTTL",)
        return self._run(args, into.truth)

    def setnx(self, key: Key, value: Value) -> Coroutine[object, None, bool]:
        """Set a key if it is missing."""
        return self._run(("SETNX", key, value), into.truth)

    def setex(self, key: Key, ttl_s: int, value: Value) -> Coroutine[object, None, None]:
        """Set a key that expires."""
        return self._run(("SETEX", key, ttl_s, value), into.nothing)

    def psetex(self, key: Key, ttl_ms: int, value: Value) -> Coroutine[object, None, None]:
        """Set a key that expires, in milliseconds."""
        return self._run(("PSETEX", key, ttl_ms, value), into.nothing)

    def getset(self, key: Key, value: Value) -> Coroutine[object, None, V | None]:
        """Set a key and return its old value."""
        return self._run(("GETSET", key, value), self._value_or_none)

    def getdel(self, key: Key) -> Coroutine[object, None, V | None]:
        """Return the value of a key and remove the key."""
        return self._run(("GETDEL", key), self._value_or_none)

    def getex(
        self,
        key: Key,
        *,
        ex_s: int | None = None,
        px_ms: int | None = None,
        exat_s: int | None = None,
        pxat_ms: int | None = None,
        persist: bool = False,
    ) -> Coroutine[object, None, V | None]:
        """Return the value of a key and change its expiry."""
        args: tuple[Argument, ...] = ("GETEX", key)
        if ex_s is not None:
            args += ("EX", ex_s)
        if px_ms is not None:
            args += ("PX", px_ms)
        if exat_s is not None:
            args += ("EXAT", exat_s)
        if pxat_ms is not None:
            args += ("PXAT", pxat_ms)
        if persist:
            args += ("PERSIST",)
        return self._run(args, self._value_or_none)

    def mget(self, *keys: Key) -> Coroutine[object, None, list[V | None]]:
        """The values of many keys."""
        return self._run(("MGET", *keys), self._values_with_none)

    def mset(self, values: Pairs) -> Coroutine[object, None, None]:
        """Set many keys at once."""
        return self._run(("MSET", *into.flat(values)), into.nothing)

    def msetnx(self, values: Pairs) -> Coroutine[object, None, bool]:
        """Set many keys if none of them exists."""
        return self._run(("MSETNX", *into.flat(values)), into.truth)

    def msetex(
        self,
        values: Pairs,
        *,
        nx: bool = False,
        xx: bool = False,
        ex_s: int | None = None,
        px_ms: int | None = None,
        exat_s: int | None = None,
        pxat_ms: int | None = None,
        keepttl: bool = False,
    ) -> Coroutine[object, None, bool]:
        """Set many keys with one expiry, or none of them. Redis 8.4."""
        args: tuple[Argument, ...] = ("MSETEX", len(values), *into.flat(values))
        if nx:
            args += ("NX",)
        if xx:
            args += ("XX",)
        if ex_s is not None:
            args += ("EX", ex_s)
        if px_ms is not None:
            args += ("PX", px_ms)
        if exat_s is not None:
            args += ("EXAT", exat_s)
        if pxat_ms is not None:
            args += ("PXAT", pxat_ms)
        if keepttl:
            args += ("KEEPTTL",)
        return self._run(args, into.truth)

    def append(self, key: Key, value: Value) -> Coroutine[object, None, int]:
        """Append to a value; return the new length."""
        return self._run(("APPEND", key, value), into.INT)

    def strlen(self, key: Key) -> Coroutine[object, None, int]:
        """The length of a value, 0 if the key is missing."""
        return self._run(("STRLEN", key), into.INT)

    def incr(self, key: Key) -> Coroutine[object, None, int]:
        """Add 1."""
        return self._run(("INCR", key), into.INT)

    def incrby(self, key: Key, amount: int) -> Coroutine[object, None, int]:
        """Add an integer."""
        return self._run(("INCRBY", key, amount), into.INT)

    def incrbyfloat(self, key: Key, amount: float) -> Coroutine[object, None, float]:
        """Add a float."""
        return self._run(("INCRBYFLOAT", key, amount), into.FLOAT)

    def increx(
        self,
        key: Key,
        amount: int = 1,
        *,
        lbound: int | None = None,
        ubound: int | None = None,
        saturate: bool = False,
        ex_s: int | None = None,
        px_ms: int | None = None,
        exat_s: int | None = None,
        pxat_ms: int | None = None,
        persist: bool = False,
        enx: bool = False,
    ) -> Coroutine[object, None, tuple[int, int]]:
        """Add within bounds; return the new value and the added amount. Redis 8.8."""
        args: tuple[Argument, ...] = ("INCREX", key, "BYINT", amount)
        if lbound is not None:
            args += ("LBOUND", lbound)
        if ubound is not None:
            args += ("UBOUND", ubound)
        if saturate:
            args += ("SATURATE",)
        if ex_s is not None:
            args += ("EX", ex_s)
        if px_ms is not None:
            args += ("PX", px_ms)
        if exat_s is not None:
            args += ("EXAT", exat_s)
        if pxat_ms is not None:
            args += ("PXAT", pxat_ms)
        if persist:
            args += ("PERSIST",)
        if enx:
            args += ("ENX",)
        return self._run(args, into.INT_PAIR)

    def decr(self, key: Key) -> Coroutine[object, None, int]:
        """Subtract 1."""
        return self._run(("DECR", key), into.INT)

    def decrby(self, key: Key, amount: int) -> Coroutine[object, None, int]:
        """Subtract an integer."""
        return self._run(("DECRBY", key, amount), into.INT)

    def getrange(self, key: Key, start: int, end: int) -> Coroutine[object, None, V]:
        """A part of a value; end is included."""
        return self._run(("GETRANGE", key, start, end), self._value)

    def setrange(self, key: Key, offset: int, value: Value) -> Coroutine[object, None, int]:
        """Overwrite a part of a value."""
        return self._run(("SETRANGE", key, offset, value), into.INT)

    def getbit(self, key: Key, offset: int) -> Coroutine[object, None, int]:
        """One bit."""
        return self._run(("GETBIT", key, offset), into.INT)

    def setbit(self, key: Key, offset: int, bit: int) -> Coroutine[object, None, int]:
        """Set one bit; return the old bit."""
        return self._run(("SETBIT", key, offset, bit), into.INT)

    def bitcount(self, key: Key) -> Coroutine[object, None, int]:
        """How many bits are set."""
        return self._run(("BITCOUNT", key), into.INT)

    def digest(self, key: Key) -> Coroutine[object, None, str | None]:
        """A hash of a value, None if the key is missing. Redis 8.4."""
        return self._run(("DIGEST", key), into.STR_OR_NONE)

    def delex(
        self,
        key: Key,
        *,
        ifeq: Value | None = None,
        ifne: Value | None = None,
        ifdeq: str | None = None,
        ifdne: str | None = None,
    ) -> Coroutine[object, None, bool]:
        """Remove a key if its value, or the digest of the value, meets the condition. Redis 8.4."""
        args: tuple[Argument, ...] = ("DELEX", key)
        if ifeq is not None:
            args += ("IFEQ", ifeq)
        if ifne is not None:
            args += ("IFNE", ifne)
        if ifdeq is not None:
            args += ("IFDEQ", ifdeq)
        if ifdne is not None:
            args += ("IFDNE", ifdne)
        return self._run(args, into.truth)

    def delete(self, *keys: Key) -> Coroutine[object, None, int]:
        """Remove keys; return how many existed."""
        return self._run(("DEL", *keys), into.INT)

    def unlink(self, *keys: Key) -> Coroutine[object, None, int]:
        """Remove keys, freeing their memory later."""
        return self._run(("UNLINK", *keys), into.INT)

    def exists(self, *keys: Key) -> Coroutine[object, None, int]:
        """How many of the keys exist."""
        return self._run(("EXISTS", *keys), into.INT)

    def touch(self, *keys: Key) -> Coroutine[object, None, int]:
        """Mark keys as used."""
        return self._run(("TOUCH", *keys), into.INT)

    def type(self, key: Key) -> Coroutine[object, None, str]:
        """The type of a key, "none" if the key is missing."""
        return self._run(("TYPE", key), into.STR)

    def keys(self, pattern: Key) -> Coroutine[object, None, list[V]]:
        """All keys that match; prefer scan_iter."""
        return self._run(("KEYS", pattern), self._names)

    def rename(self, key: Key, newkey: Key) -> Coroutine[object, None, None]:
        """Rename a key."""
        return self._run(("RENAME", key, newkey), into.nothing)

    def renamenx(self, key: Key, newkey: Key) -> Coroutine[object, None, bool]:
        """Rename a key unless a key with the new name exists."""
        return self._run(("RENAMENX", key, newkey), into.truth)

    def copy(
        self, key: Key, newkey: Key, *, db: int | None = None, replace: bool = False
    ) -> Coroutine[object, None, bool]:
        """Copy a key."""
        args: tuple[Argument, ...] = ("COPY", key, newkey)
        if db is not None:
            args += ("DB", db)
        if replace:
            args += ("REPLACE",)
        return self._run(args, into.truth)

    def randomkey(self) -> Coroutine[object, None, V | None]:
        """A random key."""
        return self._run(("RANDOMKEY",), self._name_or_none)

    def expire(
        self,
        key: Key,
        ttl_s: int,
        *,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Coroutine[object, None, bool]:
        """Let a key expire."""
        args: tuple[Argument, ...] = ("EXPIRE", key, ttl_s)
        if nx:
            args += ("NX",)
        if xx:
            args += ("XX",)
        if gt:
            args += ("GT",)
        if lt:
            args += ("LT",)
        return self._run(args, into.truth)

    def pexpire(
        self,
        key: Key,
        ttl_ms: int,
        *,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> Coroutine[object, None, bool]:
        """Let a key expire, in milliseconds."""
        args: tuple[Argument, ...] = ("PEXPIRE", key, ttl_ms)
        if nx:
            args += ("NX",)
        if xx:
            args += ("XX",)
        if gt:
            args += ("GT",)
        if lt:
            args += ("LT",)
        return self._run(args, into.truth)

    def expireat(self, key: Key, at_s: int) -> Coroutine[object, None, bool]:
        """Let a key expire at a Unix time."""
        return self._run(("EXPIREAT", key, at_s), into.truth)

    def pexpireat(self, key: Key, at_ms: int) -> Coroutine[object, None, bool]:
        """Let a key expire at a Unix time in milliseconds."""
        return self._run(("PEXPIREAT", key, at_ms), into.truth)

    def expiretime(self, key: Key) -> Coroutine[object, None, int]:
        """When a key expires; -1 never, -2 no key."""
        return self._run(("EXPIRETIME", key), into.INT)

    def pexpiretime(self, key: Key) -> Coroutine[object, None, int]:
        """When a key expires, in milliseconds."""
        return self._run(("PEXPIRETIME", key), into.INT)

    def ttl(self, key: Key) -> Coroutine[object, None, int]:
        """Seconds to live; -1 for ever, -2 no key."""
        return self._run(("TTL", key), into.INT)

    def pttl(self, key: Key) -> Coroutine[object, None, int]:
        """Milliseconds to live; -1 for ever, -2 no key."""
        return self._run(("PTTL", key), into.INT)

    def persist(self, key: Key) -> Coroutine[object, None, bool]:
        """Remove the expiry of a key."""
        return self._run(("PERSIST", key), into.truth)

    def dump(self, key: Key) -> Coroutine[object, None, bytes | None]:
        """A key's value, serialised."""
        return self._run(("DUMP", key), into.BYTES_OR_NONE)

    def restore(
        self, key: Key, ttl_ms: int, serialised: bytes, *, replace: bool = False
    ) -> Coroutine[object, None, None]:
        """Create a key from the reply of DUMP."""
        args: tuple[Argument, ...] = ("RESTORE", key, ttl_ms, serialised)
        if replace:
            args += ("REPLACE",)
        return self._run(args, into.nothing)

    def lpush(self, key: Key, *elements: Value) -> Coroutine[object, None, int]:
        """Push at the head; return the new length."""
        return self._run(("LPUSH", key, *elements), into.INT)

    def rpush(self, key: Key, *elements: Value) -> Coroutine[object, None, int]:
        """Push at the tail; return the new length."""
        return self._run(("RPUSH", key, *elements), into.INT)

    def lpushx(self, key: Key, *elements: Value) -> Coroutine[object, None, int]:
        """Push at the head of a list, if it exists."""
        return self._run(("LPUSHX", key, *elements), into.INT)

    def rpushx(self, key: Key, *elements: Value) -> Coroutine[object, None, int]:
        """Push at the tail of a list, if it exists."""
        return self._run(("RPUSHX", key, *elements), into.INT)

    def lpop(self, key: Key) -> Coroutine[object, None, V | None]:
        """Pop from the head."""
        return self._run(("LPOP", key), self._value_or_none)

    def rpop(self, key: Key) -> Coroutine[object, None, V | None]:
        """Pop from the tail."""
        return self._run(("RPOP", key), self._value_or_none)

    def lpop_many(self, key: Key, count: int) -> Coroutine[object, None, list[V] | None]:
        """Pop several from the head."""
        return self._run(("LPOP", key, count), self._values_or_none)

    def rpop_many(self, key: Key, count: int) -> Coroutine[object, None, list[V] | None]:
        """Pop several from the tail."""
        return self._run(("RPOP", key, count), self._values_or_none)

    def llen(self, key: Key) -> Coroutine[object, None, int]:
        """The length of a list."""
        return self._run(("LLEN", key), into.INT)

    def lindex(self, key: Key, index: int) -> Coroutine[object, None, V | None]:
        """One element."""
        return self._run(("LINDEX", key, index), self._value_or_none)

    def lset(self, key: Key, index: int, element: Value) -> Coroutine[object, None, None]:
        """Replace one element."""
        return self._run(("LSET", key, index, element), into.nothing)

    def lrange(self, key: Key, start: int, end: int) -> Coroutine[object, None, list[V]]:
        """Some elements; end is included."""
        return self._run(("LRANGE", key, start, end), self._values)

    def ltrim(self, key: Key, start: int, end: int) -> Coroutine[object, None, None]:
        """Keep only these elements."""
        return self._run(("LTRIM", key, start, end), into.nothing)

    def lrem(self, key: Key, count: int, element: Value) -> Coroutine[object, None, int]:
        """Remove equal elements; return how many."""
        return self._run(("LREM", key, count, element), into.INT)

    def linsert(
        self, key: Key, where: Literal["BEFORE", "AFTER"], pivot: Value, element: Value
    ) -> Coroutine[object, None, int]:
        """Insert next to an element."""
        return self._run(("LINSERT", key, where, pivot, element), into.INT)

    def lpos(
        self, key: Key, element: Value, *, rank: int | None = None, maxlen: int | None = None
    ) -> Coroutine[object, None, int | None]:
        """The index of an element."""
        args: tuple[Argument, ...] = ("LPOS", key, element)
        if rank is not None:
            args += ("RANK", rank)
        if maxlen is not None:
            args += ("MAXLEN", maxlen)
        return self._run(args, into.INT_OR_NONE)

    def lmove(
        self, source: Key, destination: Key, from_: Side, to: Side
    ) -> Coroutine[object, None, V | None]:
        """Move an element from list to list."""
        return self._run(("LMOVE", source, destination, from_, to), self._value_or_none)

    def lmovem(
        self, source: Key, destination: Key, from_: Side, to: Side, count: int
    ) -> Coroutine[object, None, list[V] | None]:
        """Move up to so many elements, which keep their order. Redis 8.10."""
        return self._run(
            ("LMOVEM", source, destination, from_, to, "COUNT", count, "BULK"), self._values_or_none
        )

    def rpoplpush(self, source: Key, destination: Key) -> Coroutine[object, None, V | None]:
        """Move the last element to the head of another list."""
        return self._run(("RPOPLPUSH", source, destination), self._value_or_none)

    def blpop(self, *keys: Key, timeout_s: float) -> Coroutine[object, None, tuple[V, V] | None]:
        """Wait for an element and pop it from the head; None after timeout_s, 0 waits for ever."""
        return self._run(("BLPOP", *keys, timeout_s), self._key_value)

    def brpop(self, *keys: Key, timeout_s: float) -> Coroutine[object, None, tuple[V, V] | None]:
        """Wait for an element and pop it from the tail."""
        return self._run(("BRPOP", *keys, timeout_s), self._key_value)

    def blmove(
        self, source: Key, destination: Key, from_: Side, to: Side, *, timeout_s: float
    ) -> Coroutine[object, None, V | None]:
        """Wait for an element, and move it to another list."""
        return self._run(("BLMOVE", source, destination, from_, to, timeout_s), self._value_or_none)

    def hset(self, key: Key, values: Pairs) -> Coroutine[object, None, int]:
        """Set fields; return how many are new."""
        return self._run(("HSET", key, *into.flat(values)), into.INT)

    def hsetnx(self, key: Key, field: Value, value: Value) -> Coroutine[object, None, bool]:
        """Set a field if it is missing."""
        return self._run(("HSETNX", key, field, value), into.truth)

    def hget(self, key: Key, field: Value) -> Coroutine[object, None, V | None]:
        """The value of a field."""
        return self._run(("HGET", key, field), self._value_or_none)

    def hmget(self, key: Key, *fields: Value) -> Coroutine[object, None, list[V | None]]:
        """The values of many fields."""
        return self._run(("HMGET", key, *fields), self._values_with_none)

    def hgetall(self, key: Key) -> Coroutine[object, None, dict[V, V]]:
        """All fields and values."""
        return self._run(("HGETALL", key), self._mapping)

    def hdel(self, key: Key, *fields: Value) -> Coroutine[object, None, int]:
        """Remove fields; return how many existed."""
        return self._run(("HDEL", key, *fields), into.INT)

    def hexists(self, key: Key, field: Value) -> Coroutine[object, None, bool]:
        """Whether a field exists."""
        return self._run(("HEXISTS", key, field), into.truth)

    def hlen(self, key: Key) -> Coroutine[object, None, int]:
        """How many fields a hash has."""
        return self._run(("HLEN", key), into.INT)

    def hkeys(self, key: Key) -> Coroutine[object, None, list[V]]:
        """All fields."""
        return self._run(("HKEYS", key), self._names)

    def hvals(self, key: Key) -> Coroutine[object, None, list[V]]:
        """All values."""
        return self._run(("HVALS", key), self._values)

    def hstrlen(self, key: Key, field: Value) -> Coroutine[object, None, int]:
        """The length of a field's value."""
        return self._run(("HSTRLEN", key, field), into.INT)

    def hincrby(self, key: Key, field: Value, amount: int) -> Coroutine[object, None, int]:
        """Add an integer to a field."""
        return self._run(("HINCRBY", key, field, amount), into.INT)

    def hincrbyfloat(self, key: Key, field: Value, amount: float) -> Coroutine[object, None, float]:
        """Add a float to a field."""
        return self._run(("HINCRBYFLOAT", key, field, amount), into.FLOAT)

    def hgetdel(self, key: Key, *fields: Value) -> Coroutine[object, None, list[V | None]]:
        """Return the values of fields and remove the fields. Redis 8.0."""
        return self._run(("HGETDEL", key, "FIELDS", len(fields), *fields), self._values_with_none)

    def hgetex(
        self,
        key: Key,
        *fields: Value,
        ex_s: int | None = None,
        px_ms: int | None = None,
        exat_s: int | None = None,
        pxat_ms: int | None = None,
        persist: bool = False,
    ) -> Coroutine[object, None, list[V | None]]:
        """Return the values of fields and change their expiry. Redis 8.0."""
        args: tuple[Argument, ...] = ("HGETEX", key)
        if ex_s is not None:
            args += ("EX", ex_s)
        if px_ms is not None:
            args += ("PX", px_ms)
        if exat_s is not None:
            args += ("EXAT", exat_s)
        if pxat_ms is not None:
            args += ("PXAT", pxat_ms)
        if persist:
            args += ("PERSIST",)
        args += ("FIELDS",)
        args += (len(fields),)
        args += (*fields,)
        return self._run(args, self._values_with_none)

    def hsetex(
        self,
        key: Key,
        values: Pairs,
        *,
        fnx: bool = False,
        fxx: bool = False,
        ex_s: int | None = None,
        px_ms: int | None = None,
        exat_s: int | None = None,
        pxat_ms: int | None = None,
        keepttl: bool = False,
    ) -> Coroutine[object, None, bool]:
        """Set fields and their expiry; False if fnx or fxx prevented it. Redis 8.0."""
        args: tuple[Argument, ...] = ("HSETEX", key)
        if fnx:
            args += ("FNX",)
        if fxx:
            args += ("FXX",)
        if ex_s is not None:
            args += ("EX", ex_s)
        if px_ms is not None:
            args += ("PX", px_ms)
        if exat_s is not None:
            args += ("EXAT", exat_s)
        if pxat_ms is not None:
            args += ("PXAT", pxat_ms)
        if keepttl:
            args += ("KEEPTTL",)
        args += ("FIELDS",)
        args += (len(values),)
        args += (*into.flat(values),)
        return self._run(args, into.truth)

    def sadd(self, key: Key, *members: Value) -> Coroutine[object, None, int]:
        """Add members; return how many are new."""
        return self._run(("SADD", key, *members), into.INT)

    def srem(self, key: Key, *members: Value) -> Coroutine[object, None, int]:
        """Remove members; return how many existed."""
        return self._run(("SREM", key, *members), into.INT)

    def smembers(self, key: Key) -> Coroutine[object, None, into.Set[V]]:
        """All members."""
        return self._run(("SMEMBERS", key), self._set)

    def sismember(self, key: Key, member: Value) -> Coroutine[object, None, bool]:
        """Whether a value is a member."""
        return self._run(("SISMEMBER", key, member), into.truth)

    def smismember(self, key: Key, *members: Value) -> Coroutine[object, None, list[bool]]:
        """For each value, whether it is a member."""
        return self._run(("SMISMEMBER", key, *members), into.BOOLS)

    def scard(self, key: Key) -> Coroutine[object, None, int]:
        """How many members a set has."""
        return self._run(("SCARD", key), into.INT)

    def spop(self, key: Key) -> Coroutine[object, None, V | None]:
        """Remove and return a random member."""
        return self._run(("SPOP", key), self._value_or_none)

    def srandmember(self, key: Key) -> Coroutine[object, None, V | None]:
        """A random member."""
        return self._run(("SRANDMEMBER", key), self._value_or_none)

    def smove(self, source: Key, destination: Key, member: Value) -> Coroutine[object, None, bool]:
        """Move a member from set to set."""
        return self._run(("SMOVE", source, destination, member), into.truth)

    def sinter(self, *keys: Key) -> Coroutine[object, None, into.Set[V]]:
        """The members that all sets have."""
        return self._run(("SINTER", *keys), self._set)

    def sunion(self, *keys: Key) -> Coroutine[object, None, into.Set[V]]:
        """The members that any set has."""
        return self._run(("SUNION", *keys), self._set)

    def sdiff(self, *keys: Key) -> Coroutine[object, None, into.Set[V]]:
        """The members that only the first set has."""
        return self._run(("SDIFF", *keys), self._set)

    def sinterstore(self, destination: Key, *keys: Key) -> Coroutine[object, None, int]:
        """Store the members that all sets have."""
        return self._run(("SINTERSTORE", destination, *keys), into.INT)

    def sunionstore(self, destination: Key, *keys: Key) -> Coroutine[object, None, int]:
        """Store the members that any set has."""
        return self._run(("SUNIONSTORE", destination, *keys), into.INT)

    def sdiffstore(self, destination: Key, *keys: Key) -> Coroutine[object, None, int]:
        """Store the members that only the first set has."""
        return self._run(("SDIFFSTORE", destination, *keys), into.INT)

    def sintercard(self, *keys: Key) -> Coroutine[object, None, int]:
        """How many members all sets have in common."""
        return self._run(("SINTERCARD", len(keys), *keys), into.INT)

    def sunioncard(self, *keys: Key) -> Coroutine[object, None, int]:
        """How many members any set has. Redis 8.10."""
        return self._run(("SUNIONCARD", len(keys), *keys), into.INT)

    def sdiffcard(self, *keys: Key) -> Coroutine[object, None, int]:
        """How many members only the first set has. Redis 8.10."""
        return self._run(("SDIFFCARD", len(keys), *keys), into.INT)

    def zadd(
        self,
        key: Key,
        scores: Scores,
        *,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
        ch: bool = False,
    ) -> Coroutine[object, None, int]:
        """Add members with scores; return how many are new."""
        args: tuple[Argument, ...] = ("ZADD", key)
        if nx:
            args += ("NX",)
        if xx:
            args += ("XX",)
        if gt:
            args += ("GT",)
        if lt:
            args += ("LT",)
        if ch:
            args += ("CH",)
        args += (*into.flat_reversed(scores),)
        return self._run(args, into.INT)

    def zincrby(self, key: Key, amount: float, member: Value) -> Coroutine[object, None, float]:
        """Add to a score."""
        return self._run(("ZINCRBY", key, amount, member), into.FLOAT)

    def zrem(self, key: Key, *members: Value) -> Coroutine[object, None, int]:
        """Remove members; return how many existed."""
        return self._run(("ZREM", key, *members), into.INT)

    def zscore(self, key: Key, member: Value) -> Coroutine[object, None, float | None]:
        """A member's score."""
        return self._run(("ZSCORE", key, member), into.FLOAT_OR_NONE)

    def zmscore(self, key: Key, *members: Value) -> Coroutine[object, None, list[float | None]]:
        """Many members' scores."""
        return self._run(("ZMSCORE", key, *members), into.FLOATS_WITH_NONE)

    def zcard(self, key: Key) -> Coroutine[object, None, int]:
        """How many members a sorted set has."""
        return self._run(("ZCARD", key), into.INT)

    def zcount(self, key: Key, low: Bound, high: Bound) -> Coroutine[object, None, int]:
        """How many members have scores in a range."""
        return self._run(("ZCOUNT", key, low, high), into.INT)

    def zlexcount(self, key: Key, low: Bound, high: Bound) -> Coroutine[object, None, int]:
        """How many members are between two bounds."""
        return self._run(("ZLEXCOUNT", key, low, high), into.INT)

    def zrank(self, key: Key, member: Value) -> Coroutine[object, None, int | None]:
        """A member's rank, from the lowest score."""
        return self._run(("ZRANK", key, member), into.INT_OR_NONE)

    def zrevrank(self, key: Key, member: Value) -> Coroutine[object, None, int | None]:
        """A member's rank, from the highest score."""
        return self._run(("ZREVRANK", key, member), into.INT_OR_NONE)

    def zrange(
        self,
        key: Key,
        start: Bound,
        end: Bound,
        *,
        byscore: bool = False,
        bylex: bool = False,
        rev: bool = False,
    ) -> Coroutine[object, None, list[V]]:
        """Some members; end is included."""
        args: tuple[Argument, ...] = ("ZRANGE", key, start, end)
        if byscore:
            args += ("BYSCORE",)
        if bylex:
            args += ("BYLEX",)
        if rev:
            args += ("REV",)
        return self._run(args, self._values)

    def zrange_withscores(
        self, key: Key, start: Bound, end: Bound, *, byscore: bool = False, rev: bool = False
    ) -> Coroutine[object, None, list[tuple[V, float]]]:
        """Some members with their scores."""
        args: tuple[Argument, ...] = ("ZRANGE", key, start, end)
        if byscore:
            args += ("BYSCORE",)
        if rev:
            args += ("REV",)
        args += ("WITHSCORES",)
        return self._run(args, self._scored)

    def zrangebyscore(self, key: Key, low: Bound, high: Bound) -> Coroutine[object, None, list[V]]:
        """The members with scores in a range."""
        return self._run(("ZRANGEBYSCORE", key, low, high), self._values)

    def zpopmin(self, key: Key, count: int = 1) -> Coroutine[object, None, list[tuple[V, float]]]:
        """Remove and return the lowest members."""
        return self._run(("ZPOPMIN", key, count), self._scored)

    def zpopmax(self, key: Key, count: int = 1) -> Coroutine[object, None, list[tuple[V, float]]]:
        """Remove and return the highest members."""
        return self._run(("ZPOPMAX", key, count), self._scored)

    def bzpopmin(
        self, *keys: Key, timeout_s: float
    ) -> Coroutine[object, None, tuple[V, V, float] | None]:
        """Wait for a member, then pop the lowest."""
        return self._run(("BZPOPMIN", *keys, timeout_s), self._key_value_score)

    def bzpopmax(
        self, *keys: Key, timeout_s: float
    ) -> Coroutine[object, None, tuple[V, V, float] | None]:
        """Wait for a member, then pop the highest."""
        return self._run(("BZPOPMAX", *keys, timeout_s), self._key_value_score)

    def zremrangebyscore(self, key: Key, low: Bound, high: Bound) -> Coroutine[object, None, int]:
        """Remove members by score."""
        return self._run(("ZREMRANGEBYSCORE", key, low, high), into.INT)

    def zremrangebyrank(self, key: Key, start: int, end: int) -> Coroutine[object, None, int]:
        """Remove members by rank."""
        return self._run(("ZREMRANGEBYRANK", key, start, end), into.INT)

    def zunionstore(self, destination: Key, *keys: Key) -> Coroutine[object, None, int]:
        """Store the union."""
        return self._run(("ZUNIONSTORE", destination, len(keys), *keys), into.INT)

    def zinterstore(self, destination: Key, *keys: Key) -> Coroutine[object, None, int]:
        """Store the intersection."""
        return self._run(("ZINTERSTORE", destination, len(keys), *keys), into.INT)

    def xadd(
        self, key: Key, fields: Pairs, *, id: str = "*", maxlen: int | None = None
    ) -> Coroutine[object, None, str | None]:
        """Append an entry; return its id."""
        args: tuple[Argument, ...] = ("XADD", key)
        if maxlen is not None:
            args += ("MAXLEN", maxlen)
        args += (id,)
        args += (*into.flat(fields),)
        return self._run(args, into.STR_OR_NONE)

    def xlen(self, key: Key) -> Coroutine[object, None, int]:
        """How many entries a stream has."""
        return self._run(("XLEN", key), into.INT)

    def xrange(
        self, key: Key, first: str = "-", last: str = "+", *, count: int | None = None
    ) -> Coroutine[object, None, list[tuple[str, dict[V, V]]]]:
        """Some entries."""
        args: tuple[Argument, ...] = ("XRANGE", key, first, last)
        if count is not None:
            args += ("COUNT", count)
        return self._run(args, self._entries)

    def xrevrange(
        self, key: Key, last: str = "+", first: str = "-", *, count: int | None = None
    ) -> Coroutine[object, None, list[tuple[str, dict[V, V]]]]:
        """Some entries, latest first."""
        args: tuple[Argument, ...] = ("XREVRANGE", key, last, first)
        if count is not None:
            args += ("COUNT", count)
        return self._run(args, self._entries)

    def xdel(self, key: Key, *ids: str) -> Coroutine[object, None, int]:
        """Remove entries."""
        return self._run(("XDEL", key, *ids), into.INT)

    def xtrim(self, key: Key, maxlen: int) -> Coroutine[object, None, int]:
        """Keep only the latest entries."""
        return self._run(("XTRIM", key, "MAXLEN", maxlen), into.INT)

    def xack(self, key: Key, group: Key, *ids: str) -> Coroutine[object, None, int]:
        """Acknowledge entries."""
        return self._run(("XACK", key, group, *ids), into.INT)

    def pfadd(self, key: Key, *elements: Value) -> Coroutine[object, None, bool]:
        """Add elements to an estimate of their number."""
        return self._run(("PFADD", key, *elements), into.truth)

    def pfcount(self, *keys: Key) -> Coroutine[object, None, int]:
        """An estimate of how many different elements were counted."""
        return self._run(("PFCOUNT", *keys), into.INT)

    def pfmerge(self, destination: Key, *keys: Key) -> Coroutine[object, None, None]:
        """Merge estimates."""
        return self._run(("PFMERGE", destination, *keys), into.nothing)

    def publish(self, channel: Key, message: Value) -> Coroutine[object, None, int]:
        """Send a message; return how many clients received it."""
        return self._run(("PUBLISH", channel, message), into.INT)

    def ping(self) -> Coroutine[object, None, str]:
        """ "PONG"."""
        return self._run(("PING",), into.STR)

    def echo(self, message: Value) -> Coroutine[object, None, V]:
        """The message."""
        return self._run(("ECHO", message), self._value)

    def time(self) -> Coroutine[object, None, tuple[int, int]]:
        """The server's clock: seconds and microseconds."""
        return self._run(("TIME",), into.INT_PAIR)

    def dbsize(self) -> Coroutine[object, None, int]:
        """How many keys the database has."""
        return self._run(("DBSIZE",), into.INT)

    def flushdb(self) -> Coroutine[object, None, None]:
        """Remove all keys of the database."""
        return self._run(("FLUSHDB",), into.nothing)

    def flushall(self) -> Coroutine[object, None, None]:
        """Remove all keys."""
        return self._run(("FLUSHALL",), into.nothing)

    def info(self, section: str = "default") -> Coroutine[object, None, str]:
        """Facts and statistics about the server."""
        return self._run(("INFO", section), into.STR)

    def config_get(self, *patterns: Key) -> Coroutine[object, None, dict[str, str]]:
        """Configuration parameters."""
        return self._run(("CONFIG", "GET", *patterns), into.STR_MAPPING)

    def config_set(self, parameter: str, value: Value) -> Coroutine[object, None, None]:
        """Change a configuration parameter."""
        return self._run(("CONFIG", "SET", parameter, value), into.nothing)
