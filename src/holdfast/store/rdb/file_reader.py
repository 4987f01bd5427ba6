"""Reads an RDB file or stream: bytes in, in pieces of any size, and records out.

It reads what Redis 5 to 8 and Valkey up to 9 write, and older files as Redis does. The stream ends
where its last record ends. Other bytes may follow: the commands of an append-only file, or the end
mark of a replication stream of unknown length.

Memory is allocated only for bytes that have arrived, never by a length in the file, so a damaged
file costs no more memory than it has bytes. Decision 32 tells which parts of a file are skipped,
and why.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

from holdfast.store.rdb.module_values import pass_module_value, pass_rows, type_name
from holdfast.store.rdb.plain import Plain
from holdfast.store.rdb.primitives import Reader, Steps, finished, one, rows
from holdfast.store.rdb.records import Aux, End, Entry, Keys, Library, Record, Sizes, Unknown
from holdfast.store.rdb.value_codec import (
    HASH,
    HASH_LISTPACK,
    LIBRARY,
    LIST,
    LIST_QUICKLIST_2,
    REDIS_LOADERS,
    SET,
    SET_INTSET,
    SET_LISTPACK,
    STRING,
    VALKEY_LOADERS,
    ZSET,
    ZSET_LISTPACK,
    EmptyError,
    Loader,
    RdbError,
)

# The newest versions whose forms are known: of Redis 8.8 and of Valkey 9.2. Redis and Valkey refuse
# newer versions, too, because a number may have another meaning there.
NEWEST_REDIS: Final = 14
VALKEY_VERSIONS: Final = (80, 81)
FIRST_WITH_CHECKSUM: Final = 5
HEADER_BYTES: Final = 9

MODULE_RC, MODULE = 6, 7
LAST_FORM: Final = 200  # larger numbers are no values
SLOT_IMPORT = KEY_METADATA = 243  # the former in Valkey, the latter in Redis
SLOT_INFO, LIBRARY_RC, MODULE_AUX, IDLE, FREQUENCY, AUX, SIZES = 244, 246, 247, 248, 249, 250, 251
EXPIRY_MS, EXPIRY_S, DATABASE, END = 252, 253, 254, 255
LONGEST_REASON: Final = 60
VALUE: Final = "a value"  # the value of a key, while it is read

# The type of each form that is read in columns. Redis and Valkey write small values so.
IN_COLUMNS: Final = {
    STRING: "string",
    LIST: "list",
    LIST_QUICKLIST_2: "list",
    SET: "set",
    SET_INTSET: "set",
    SET_LISTPACK: "set",
    HASH: "hash",
    HASH_LISTPACK: "hash",
    ZSET: "zset",
    ZSET_LISTPACK: "zset",
}

# Types of newer versions, by number. Nothing in a file tells where such a value ends.
NAMES: Final = {
    MODULE_RC: "module (of a release candidate of Redis 4.0)",
    23: "path hash (of Valkey 9.2)",
    28: "array (of Redis 8.8)",
}


class RdbFileError(RdbError):
    """The bytes are not an RDB file, are damaged, or cannot be read any further. `at` is the
    place."""

    def __init__(self, sentence: str, at: int) -> None:
        super().__init__(sentence)
        self.at = at


class UnknownTypeError(RdbFileError):
    """A key has a value of a type that Holdfast does not know, and its end cannot be found."""


class RdbReader:
    """Reads one file. `feed` and `end` raise RdbFileError, at once or while their records are read.
    There are no records after an error."""

    def __init__(self, total_bytes: int | None = None, *, joins_keys: bool = False) -> None:
        """`total_bytes` is the size of the file, if it is known. Then a length beyond the size is
        noticed at once, and not only when all bytes have been read. `joins_keys`: there may be
        `Keys` among the records."""
        self._reader = Reader(b"", total_bytes)
        self._steps = self._run()
        self._loaders: dict[int, Loader] = REDIS_LOADERS
        self._joins_keys = joins_keys
        self.version = 0
        self.is_of_valkey = False
        self.is_at_end = False
        # These belong to the next key.
        self._database = 0
        self._expires_at_ms: int | None = None
        self._idle_s: int | None = None
        self._frequency: int | None = None
        self._handlers: dict[int, Callable[[], Steps[Any]]] = {
            SLOT_IMPORT: self._pass_slot_import_or_metadata,
            SLOT_INFO: self._pass_slot_info,
            LIBRARY: self._library,
            LIBRARY_RC: self._library_of_candidate,
            MODULE_AUX: self._pass_module_aux,
            IDLE: self._take_idle,
            FREQUENCY: self._take_frequency,
            AUX: self._aux,
            SIZES: self._sizes,
            EXPIRY_MS: self._take_expiry_ms,
            EXPIRY_S: self._take_expiry_s,
            DATABASE: self._take_database,
            END: self._end,
        }
        # For errors: the part that is being read, and the name of the key if the part is a value.
        self._doing, self._key = "", b""

    def feed(self, data: bytes) -> Iterator[Record]:
        """The records that these bytes complete. Read all of them before the next call."""
        self._reader.feed(data)
        return self._records()

    def end(self) -> None:
        """No more bytes come. Raises RdbFileError if the file is not complete."""
        self._reader.end()
        for _ in self._records():
            raise AssertionError("a record without new bytes")

    @property
    def position(self) -> int:
        """How many bytes were read."""
        return self._reader.position

    def rest(self) -> bytes:
        """The bytes that were fed and come after the end."""
        return self._reader.rest()

    def _records(self) -> Iterator[Record]:
        for record in self._steps:
            if record is None:
                return
            yield record

    # -- the stream ---------------------------------------------------------------------------

    def _run(self) -> Generator[Record | None]:
        try:
            yield from self._header()
            while not self.is_at_end:
                # Most keys are small. Reading all that are there at once takes a fraction of the
                # time of the code below, which can stop after each part.
                keys = None if self._knows_of_key else self._keys()
                if keys is not None:
                    if self._joins_keys:
                        yield keys
                    else:
                        yield from keys.entries()
                    continue
                self._doing = "its next record"
                code = yield from one(self._reader, Reader.byte)
                record = yield from self._record(code)
                if record is not None:
                    yield record
        except (ValueError, IndexError, KeyError, OverflowError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> RdbFileError:
        at = self._reader.position
        reason = str(error) if isinstance(error, ValueError) else ""
        if not 0 < len(reason) <= LONGEST_REASON:  # a message of Python, which quotes the bytes
            reason = "its bytes make no value"
        return RdbFileError(f"damaged at byte {at:,}, in {self._what()}: {reason}", at)

    def _what(self) -> str:
        if self._doing != VALUE:
            return self._doing
        return f"key {printable(self._key)} of database {self._database}"

    def _header(self) -> Steps[None]:
        self._doing = "its header"
        try:
            header = yield from one(self._reader, lambda r: r.take(HEADER_BYTES))
        except ValueError:
            raise RdbFileError("not an RDB file", 0) from None
        is_redis, is_valkey = header.startswith(b"REDIS"), header.startswith(b"VALKEY")
        digits = header[5:] if is_redis else header[6:]
        if not (is_redis or is_valkey) or not digits.isdigit():
            raise RdbFileError("not an RDB file", 0)
        self.version, self.is_of_valkey = int(digits), is_valkey
        if is_valkey:
            self._loaders = VALKEY_LOADERS
            is_known = self.version in VALKEY_VERSIONS
        else:
            is_known = 1 <= self.version <= NEWEST_REDIS
        if not is_known:
            server = "Valkey" if is_valkey else "Redis"
            raise RdbFileError(
                f"an RDB file of version {self.version} of {server}, which this Holdfast does not"
                " know",
                HEADER_BYTES,
            )

    def _record(self, code: int) -> Steps[Record | None]:
        if code in self._loaders:
            return (yield from self._entry(code))
        handler = self._handlers.get(code)
        if handler is not None:
            record: Record | None = yield from handler()
            return record
        if code == MODULE:
            return (yield from self._module_entry())
        if code <= LAST_FORM:
            yield from self._name()
            kind = NAMES.get(code, f"number {code}")
            raise UnknownTypeError(
                f"not readable to its end: {self._what()} is of the type {kind}, which Holdfast"
                " does not know, and nothing says where that value ends",
                self._reader.position,
            )
        raise ValueError(f"no record begins with {code}")

    def _keys(self) -> Keys | None:
        form = self._reader.form(EXPIRY_MS)
        type_name = IN_COLUMNS.get(form)
        if type_name is None:
            return None
        loader = REDIS_LOADERS[form]  # Valkey has the same
        columns = self._reader.keys(form, EXPIRY_MS, lambda r: finished(loader(r)).content)
        return None if columns is None else Keys(self._database, type_name, *columns)

    def _entry(self, form: int) -> Steps[Record | None]:
        name = yield from self._name()
        try:
            value: Plain = yield from self._loaders[form](self._reader)
        except EmptyError:
            self._forget_key()
            return None
        return self._made_entry(name, value)

    def _made_entry(self, name: bytes, value: Plain) -> Entry:
        entry = Entry(
            self._database, name, value, self._expires_at_ms, self._idle_s, self._frequency
        )
        self._forget_key()
        return entry

    def _module_entry(self) -> Steps[Record]:
        name = yield from self._name()
        module = type_name((yield from one(self._reader, Reader.length)))
        yield from pass_module_value(self._reader)
        self._forget_key()
        return Unknown(self._database, name, f"{module} of a module")

    def _name(self) -> Steps[bytes]:
        self._doing = "the name of a key"
        self._key = yield from one(self._reader, Reader.string)
        self._doing = VALUE
        return self._key

    @property
    def _knows_of_key(self) -> bool:
        """Whether anything about the next key was read already."""
        times = (self._expires_at_ms, self._idle_s, self._frequency)
        return any(each is not None for each in times)

    def _forget_key(self) -> None:
        self._expires_at_ms = self._idle_s = self._frequency = None

    # -- records that are no keys -------------------------------------------------------------

    def _take_database(self) -> Steps[None]:
        self._database = yield from one(self._reader, Reader.length)

    def _take_expiry_ms(self) -> Steps[None]:
        self._expires_at_ms = yield from one(self._reader, lambda r: _signed(r, 8))

    def _take_expiry_s(self) -> Steps[None]:
        self._expires_at_ms = 1000 * (yield from one(self._reader, lambda r: _signed(r, 4)))

    def _take_idle(self) -> Steps[None]:
        self._idle_s = yield from one(self._reader, Reader.length)

    def _take_frequency(self) -> Steps[None]:
        self._frequency = yield from one(self._reader, Reader.byte)

    def _sizes(self) -> Steps[Sizes]:
        keys, expiring = yield from rows(self._reader, 1, Reader.length, Reader.length)
        return Sizes(self._database, keys, expiring)

    def _aux(self) -> Steps[Aux]:
        name, value = yield from rows(self._reader, 1, Reader.string, Reader.string)
        return Aux(name, value)

    def _library(self) -> Steps[Library]:
        self._doing = "a library of functions"
        return Library((yield from one(self._reader, Reader.string)))

    def _library_of_candidate(self) -> Steps[Unknown]:
        self._doing = "a library of functions"
        name, _, has_description = yield from rows(
            self._reader, 1, Reader.string, Reader.string, Reader.length
        )
        yield from rows(self._reader, 2 if has_description else 1, Reader.string)
        return Unknown(0, name, "library of a release candidate of Redis 7.0")

    def _pass_slot_info(self) -> Steps[None]:
        yield from pass_rows(self._reader, 3, Reader.length)

    def _pass_slot_import_or_metadata(self) -> Steps[None]:
        """Skip this record. In Valkey it is a move of cluster slots that has not ended. In Redis it
        has data of modules about the next key."""
        if self.is_of_valkey:
            yield from pass_rows(self._reader, 1, Reader.string)
            count = yield from one(self._reader, Reader.length)
            yield from pass_rows(self._reader, count, Reader.length, Reader.length)
            return
        for _ in range((yield from one(self._reader, Reader.length))):
            yield from one(self._reader, lambda r: r.take(4))
            yield from pass_module_value(self._reader)

    def _pass_module_aux(self) -> Steps[None]:
        self._doing = "the data of a module"
        yield from pass_rows(self._reader, 3, Reader.length)
        yield from pass_module_value(self._reader)

    def _end(self) -> Steps[End]:
        self._doing = "its checksum"
        found, has_checksum = self._reader.checksum, False
        if self.version >= FIRST_WITH_CHECKSUM:
            expected = yield from one(self._reader, lambda r: r.number(8))
            has_checksum = expected != 0  # Redis writes 0 if checksums are turned off
            if has_checksum and expected != found:
                raise RdbFileError(
                    "damaged: its checksum is wrong, so some of its bytes have changed",
                    self._reader.position,
                )
        self.is_at_end = True
        return End(self.version, has_checksum)


def _signed(r: Reader, size: int) -> int:
    return int.from_bytes(r.take(size), "little", signed=True)


def printable(name: bytes) -> str:
    """The name of a key for a sentence: short, on one line."""
    text = repr(name.decode("utf-8", "backslashreplace"))
    return text if len(text) <= 80 else f"{text[:76]}…'"
