"""Libraries of functions: loading them, finding a function, copying all of them to another server.

scripts.py runs a function. The commands are in server/commands/functions_commands.py.
"""

import logging
import re
from collections.abc import Iterable
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.errors import CommandError
from holdfast.resp.c_strings import c_string
from holdfast.scripting.script import CompiledScript, Failure, Killed, Registered
from holdfast.server.config.directives import split_args
from holdfast.store.change.ops import LIBRARY
from holdfast.store.memory.keyspace import Keyspace

if TYPE_CHECKING:
    from holdfast.scripting.sandbox import Sandbox

log = logging.getLogger(__name__)

NO_FUNCTION = CommandError("ERR Function not found")
NO_LIBRARY = CommandError("ERR Library not found")
NO_METADATA = CommandError("ERR Missing library metadata")
BAD_METADATA = CommandError("ERR Invalid library metadata")
NAMED_TWICE = CommandError("ERR Invalid metadata value, name argument was given multiple times")
NOT_NAMED = CommandError("ERR Library name was not given")
BAD_NAME = CommandError(
    "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least"
    " one character long"
)
NO_FUNCTIONS = CommandError("ERR No functions registered")
BAD_PAYLOAD = CommandError("ERR DUMP payload version or checksum are wrong")

LOAD_LIMIT_S = 0.5  # as in Redis
OUT_OF_TIME = b"ERR FUNCTION LOAD timeout"

_is_name = re.compile(rb"[A-Za-z0-9_]+").fullmatch


class Function(NamedTuple):
    script: CompiledScript
    description: bytes | None


class Library(NamedTuple):
    name: bytes
    code: bytes
    functions: list[Function]


class FunctionHost(Protocol):
    def new_sandbox(self, *, for_functions: bool) -> "Sandbox": ...


class Functions:
    """All libraries. The keyspace stores their code; they are loaded when a function is needed."""

    def __init__(self, host: FunctionHost, keyspace: Keyspace) -> None:
        self._host = host
        self._keyspace = keyspace
        self._sandbox: Sandbox | None = None
        self._libraries: dict[bytes, Library] = {}
        self._by_name: dict[bytes, Function] = {}  # in lower case
        # The dict of the keyspace from which the libraries were loaded.
        self._loaded_from: dict[bytes, bytes] = {}
        self._deadline_s: float | None = None

    @property
    def used_bytes(self) -> int:
        """Memory of the Lua state for functions."""
        return 0 if self._sandbox is None else self._sandbox.used_bytes

    @property
    def libraries(self) -> dict[bytes, Library]:
        if self._loaded_from is not self._keyspace.libraries:  # after a start, or a failed write
            self._load_again()
        return self._libraries

    @property
    def text_bytes(self) -> int:
        """The total size of the code of all libraries. It loads none."""
        return sum(map(len, self._keyspace.libraries.values()))

    @property
    def count(self) -> int:
        return sum(len(library.functions) for library in self.libraries.values())

    def find(self, name: bytes) -> CompiledScript:
        function = self._by_name.get(name)
        if function is None or self._loaded_from is not self._keyspace.libraries:
            assert self.libraries is not None
            function = self._by_name.get(name.lower())
            if function is None:
                raise NO_FUNCTION
        return function.script

    # -- changing them ------------------------------------------------------------------------

    def load(self, code: bytes, *, replace: bool) -> bytes:
        """FUNCTION LOAD: load a library; return its name."""
        library = self._create(code, self.libraries, replace=replace)
        self._put([library])
        return library.name

    def delete(self, name: bytes) -> None:
        if name not in self.libraries:
            raise NO_LIBRARY
        self._remove([name])

    def flush(self) -> None:
        self._remove(list(self.libraries))
        self._sandbox = None  # drops also all values that the functions have left in it

    def dump(self) -> bytes:
        from holdfast.store.rdb import value_codec

        return value_codec.dump_libraries(library.code for library in self.libraries.values())

    def restore(self, payload: bytes, policy: bytes) -> None:
        """Load all libraries of a dump, or none. The policy is FLUSH, APPEND or REPLACE."""
        from holdfast.store.rdb import value_codec

        new: dict[bytes, Library] = {}
        try:
            for code in value_codec.load_libraries(payload):
                library = self._create(code, new, replace=False)
                new[library.name] = library
        except value_codec.ChecksumError:
            raise BAD_PAYLOAD from None
        except value_codec.RdbError as error:
            raise CommandError(f"ERR {error}") from None
        if policy == b"APPEND":
            for name in new:
                if name in self.libraries:
                    raise CommandError(b"ERR Library %s already exists" % name)
        if policy == b"FLUSH":
            self._remove(list(self.libraries))
        else:
            others = [library for name, library in self.libraries.items() if name not in new]
            for library in new.values():
                _check_distinct(library, others)
        self._put(new.values())

    def _put(self, libraries: Iterable[Library]) -> None:
        for library in libraries:
            self._libraries[library.name] = library
            self._keyspace.write_script(LIBRARY, library.name, library.code)
        self._index()

    def _remove(self, names: list[bytes]) -> None:
        for name in names:
            del self._libraries[name]
            self._keyspace.write_script(LIBRARY, name, None)
        self._index()

    def _index(self) -> None:
        self._by_name = {
            function.script.name.lower(): function
            for library in self._libraries.values()
            for function in library.functions
        }

    # -- loading ------------------------------------------------------------------------------

    def tick(self) -> bytes | None:
        """Called while the code of a library runs. Returns the reason why it has to end, or
        None."""
        late = self._deadline_s is not None and perf_counter() > self._deadline_s
        return OUT_OF_TIME if late else None

    def _load_again(self) -> None:
        self._sandbox, self._libraries = None, {}
        self._loaded_from = self._keyspace.libraries
        for name, code in self._loaded_from.items():
            try:  # without a limit of time: it was loaded before, maybe on a faster machine
                self._libraries[name] = self._create(
                    code, self._libraries, replace=False, limit_s=inf
                )
            except CommandError as error:
                log.error("cannot load the library %s: %s", name.decode(), error)
        self._index()

    def _create(
        self,
        code: bytes,
        among: dict[bytes, Library],
        *,
        replace: bool,
        limit_s: float = LOAD_LIMIT_S,
    ) -> Library:
        """A library whose functions have names that no other library uses. Raises CommandError."""
        name, body = _metadata(code)
        if name in among and not replace:
            raise CommandError(b"ERR Library '%s' already exists" % name)
        if self._sandbox is None:
            self._sandbox = self._host.new_sandbox(for_functions=True)
        self._deadline_s = perf_counter() + limit_s
        try:
            registered = _registered(self._sandbox, body)
        finally:
            self._deadline_s = None  # the deadline is for this load only
        functions = [
            Function(_script(self._sandbox, entry, body), entry.description) for entry in registered
        ]
        if not functions:
            raise NO_FUNCTIONS
        library = Library(name, code, functions)
        _check_distinct(library, [other for other in among.values() if other.name != name])
        return library


def _registered(sandbox: "Sandbox", body: bytes) -> list[Registered]:
    try:
        result = sandbox.load(body)
    except CommandError as error:
        raise CommandError(b"ERR Error compiling function: " + error.message) from None
    except Killed as killed:
        result = killed.failure
    if isinstance(result, Failure):
        raise CommandError(b"ERR Error registering functions: " + result.message)
    return result


def _script(sandbox: "Sandbox", entry: Registered, body: bytes) -> CompiledScript:
    lines = b"\n".join(body.split(b"\n")[: entry.last_line])
    return CompiledScript(entry.name, sandbox, entry.function, lines, entry.flags, is_function=True)


def _check_distinct(library: Library, others: Iterable[Library]) -> None:
    """Raise CommandError if a function has the name of another one. Names that differ only in case
    count as equal, because FCALL ignores case."""
    taken = {function.script.name.lower() for other in others for function in other.functions}
    for function in library.functions:
        if function.script.name.lower() in taken:
            raise CommandError(b"ERR Function %s already exists" % function.script.name)


def _metadata(code: bytes) -> tuple[bytes, bytes]:
    """The name of the library, from the first line, and the code without that line. All lines keep
    their numbers."""
    if not code.startswith(b"#!"):
        raise NO_METADATA
    line, newline, _ = c_string(code).partition(b"\n")
    words = split_args(line) if newline else None
    if not words:
        raise BAD_METADATA
    engine, *options = words
    name: bytes | None = None
    for option in options:
        if option[:5].lower() != b"name=":
            raise CommandError(b"ERR Invalid metadata value given: " + option)
        if name is not None:
            raise NAMED_TWICE
        name = option[5:]
    if name is None:
        raise NOT_NAMED
    if not _is_name(name):
        raise BAD_NAME
    if engine[2:].lower() != b"lua":
        raise CommandError(b"ERR Engine '%s' not found" % engine[2:])
    return name, code[len(line) :]
