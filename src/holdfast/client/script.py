"""Lua scripts by digest, with the source as a fallback."""

import hashlib
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar, overload

from holdfast.client.convert import Into, converter
from holdfast.client.errors import ServerError
from holdfast.client.into import Key
from holdfast.client.request import Argument

T = TypeVar("T")
Run = Callable[[tuple[Argument, ...], Callable[[Any], Any]], Coroutine[Any, Any, Any]]


class Script:
    def __init__(self, run: Run, source: str) -> None:
        self._run = run
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()

    @overload
    async def __call__(
        self, keys: Iterable[Key] = (), args: Iterable[Argument] = (), *, into: Into[T]
    ) -> T: ...
    @overload
    async def __call__(
        self, keys: Iterable[Key] = (), args: Iterable[Argument] = (), *, into: Any = Any
    ) -> Any: ...
    async def __call__(
        self, keys: Iterable[Key] = (), args: Iterable[Argument] = (), *, into: Any = Any
    ) -> Any:
        """Run it. NOSCRIPT means that nothing ran, so sending the source then is no replay."""
        keys = tuple(keys)
        rest = (len(keys), *keys, *args)
        convert = converter(into)
        try:
            return await self._run(("EVALSHA", self.sha, *rest), convert)
        except ServerError as error:
            if error.code != b"NOSCRIPT":
                raise
        return await self._run(("EVAL", self.source, *rest), convert)
