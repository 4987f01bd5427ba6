"""Lua scripts by digest, with the source as a fallback."""

import hashlib
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from holdfast.client.api.typed_exec import ScriptExec
from holdfast.client.errors import ServerError
from holdfast.client.protocol.convert import converter
from holdfast.client.protocol.into import Key
from holdfast.client.protocol.request import Argument

Run = Callable[[tuple[Argument, ...], Callable[[Any], Any]], Coroutine[Any, Any, Any]]


class Script(ScriptExec):
    """A Lua script. Call it with keys and arguments; `client.script(source)` makes one."""

    def __init__(self, run: Run, source: str) -> None:
        self._run = run
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    async def _call(self, keys: Iterable[Key], args: Iterable[Argument], into: Any) -> Any:
        """Send the digest, and after NOSCRIPT the source. NOSCRIPT means that nothing ran, so this
        is no replay."""
        for name, items, given in (("names", keys, "keys"), ("arguments", args, "args")):
            if isinstance(items, str | bytes):
                raise TypeError(f"{given} is a list of {name}, not {items!r:.80}")
        keys = tuple(keys)
        rest = (len(keys), *keys, *args)
        convert = converter(into)
        try:
            return await self._run(("EVALSHA", self.sha, *rest), convert)
        except ServerError as error:
            if error.code != b"NOSCRIPT":
                raise
        return await self._run(("EVAL", self.source, *rest), convert)
