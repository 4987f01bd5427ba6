"""The ```py examples of a guide run in order and share their names."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any


async def run_examples(guide: Path, text: str, url: str, **given: Any) -> None:
    """Run the examples. `given` are names that each example has, even if an earlier example has
    rebound them."""
    names: dict[str, Any] = {}
    for block in re.finditer(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text[: block.start()].count("\n") + 1
        source = "\n" * line + block[1].replace("redis://localhost:6379", url)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(source, str(guide), "exec", flags=flags, dont_inherit=True)
        names |= given
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result
