"""The cache of compiled scripts. Scripts of SCRIPT LOAD are also kept across restarts."""

from collections.abc import Callable
from math import inf
from time import perf_counter_ns
from typing import TYPE_CHECKING, final

from holdfast.errors import CommandError
from holdfast.scripting.script import CompiledScript, Killed
from holdfast.server.scripts.coordination_index import role_of
from holdfast.server.sessions.session_host import SessionHost
from holdfast.store.change.ops import SCRIPT

if TYPE_CHECKING:
    from holdfast.scripting.sandbox import Sandbox

NO_SCRIPT = CommandError("NOSCRIPT No matching script. Please use EVAL.")
COMPILING = b"ERR Error compiling script (new function): "

FLAGS = frozenset(
    {b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"}
)

MOST_EVALUATED = 500  # scripts of EVAL that are kept: those used last, as in Redis 7.4


@final
class ScriptCache:
    def __init__(self, host: SessionHost, sandbox: "Callable[[], Sandbox]") -> None:
        """`sandbox` returns the Lua state for scripts; it makes one at the first call."""
        self._host = host
        self._keyspace = host.keyspace
        self._sandbox = sandbox
        self._evaluated: dict[bytes, CompiledScript] = {}  # by SHA1, those used last at the end
        self._compiles_until_ns: float = inf

    def load(self, text: bytes) -> bytes:
        """SCRIPT LOAD: compile, and keep also across restarts; returns the SHA1."""
        sha = _sha1hex(text)
        if sha not in self._evaluated:
            self._evaluated[sha] = self._compile(sha, text)
        if sha not in self._keyspace.scripts:
            self._keyspace.write_script(SCRIPT, sha, text)
        return sha

    def evaluated(self, text: bytes) -> CompiledScript:
        """The script of EVAL."""
        sha = _sha1hex(text)
        script = self._evaluated.pop(sha, None) or self._compile(sha, text)
        self._evaluated[sha] = script
        if len(self._evaluated) > MOST_EVALUATED + len(self._keyspace.scripts):
            self._forget_one()
        return script

    def known(self, sha: bytes) -> CompiledScript:
        """The script of EVALSHA. Raises NOSCRIPT."""
        script = self._evaluated.pop(sha, None)
        if script is None:
            sha = sha.lower()
            script = self._evaluated.pop(sha, None)
            if script is None:
                text = self._keyspace.scripts.get(sha)
                if text is None:
                    raise NO_SCRIPT
                script = self._compile(sha, text)
        self._evaluated[sha] = script
        return script

    def text_of(self, sha: bytes) -> bytes | None:
        """The script with this SHA1, or None."""
        sha = sha.lower()
        script = self._evaluated.get(sha)
        return self._keyspace.scripts.get(sha) if script is None else script.text

    def __contains__(self, sha: bytes) -> bool:
        sha = sha.lower()
        return sha in self._evaluated or sha in self._keyspace.scripts

    def flush(self) -> None:
        self._evaluated.clear()
        for sha in list(self._keyspace.scripts):
            self._keyspace.write_script(SCRIPT, sha, None)

    @property
    def count(self) -> int:
        return len(self._evaluated.keys() | self._keyspace.scripts.keys())

    @property
    def text_bytes(self) -> int:
        """The total size of the stored scripts."""
        return sum(map(len, self._keyspace.scripts.values()))

    def _forget_one(self) -> None:
        for sha in self._evaluated:
            if sha not in self._keyspace.scripts:
                del self._evaluated[sha]
                return

    def _compile(self, sha: bytes, text: bytes) -> CompiledScript:
        """Compile a script. There is a limit of time, because SCRIPT KILL can end only a script
        that runs. The limit is the time after which other clients would get the error BUSY."""
        flags, body = _shebang(text)
        sandbox = self._sandbox()
        limit_ms = self._host.config.busy_reply_threshold
        if limit_ms > 0:
            self._compiles_until_ns = perf_counter_ns() + limit_ms * 1e6
        try:
            function = sandbox.compile(body, b"@user_script")
        except CommandError as error:
            raise CommandError(COMPILING + error.message) from None
        except Killed as killed:
            raise CommandError(killed.failure.message) from None
        finally:
            self._compiles_until_ns = inf
        script = CompiledScript(sha, sandbox, function, body, flags)
        script.role = role_of(body)
        return script

    def tick(self) -> bytes | None:
        """The reason why compiling has to end now, or None."""
        if perf_counter_ns() > self._compiles_until_ns:
            return COMPILING + b"it takes longer than lua-time-limit"
        return None


def _shebang(text: bytes) -> tuple[frozenset[bytes] | None, bytes]:
    """The flags that the first line declares, and the script without that line. All lines keep
    their numbers."""
    if not text.startswith(b"#!"):
        return None, text
    line, newline, _ = text.partition(b"\n")
    if not newline:
        raise CommandError("ERR Invalid script shebang")
    engine, *options = line.split()
    if engine != b"#!lua":
        raise CommandError(b"ERR Unexpected engine in script shebang: " + engine)
    flags: list[bytes] = []
    for option in options:
        if not option.startswith(b"flags="):
            raise CommandError(b"ERR Unknown lua shebang option: " + option)
        flags += [flag for flag in option[6:].split(b",") if flag]
    for flag in flags:
        if flag not in FLAGS:
            raise CommandError(b"ERR Unexpected flag in script shebang: " + flag)
    return frozenset(flags), text[len(line) :]


def _sha1hex(text: bytes) -> bytes:
    import hashlib

    return hashlib.sha1(text).hexdigest().encode()
