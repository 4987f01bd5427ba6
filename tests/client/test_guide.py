"""The guide is a test: its examples run in order, and its diagram is the table's.

Its blocks are ```py, not ```python: they share a client, on a server that has every command.
"""

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import holdfast
from holdfast.client import errors
from holdfast.client.options import Options
from holdfast.client.state import diagram

GUIDE = Path(__file__).parents[2] / "docs" / "guide-client.md"
TEXT = GUIDE.read_text()


def test_the_examples_run(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client:
            names: dict[str, Any] = {}
            for block in re.finditer(r"^```py\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL):
                line = TEXT[: block.start()].count("\n") + 1
                source = "\n" * line + block[1].replace("redis://localhost:6379", redis_url)
                flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                code = compile(source, str(GUIDE), "exec", flags=flags, dont_inherit=True)
                names["client"] = client  # whatever an example before called that
                result = eval(code, names)
                if inspect.isawaitable(result):
                    await result

    asyncio.run(scenario())


def test_the_diagram_is_the_table() -> None:
    assert f"```mermaid\n{diagram()}```" in TEXT, "run scripts/generate_client.py"


def test_every_option_and_error_is_explained() -> None:
    for option in Options.__dataclass_fields__:
        if option not in ("host", "port", "path", "place", "tls"):
            assert f"`{option}`" in TEXT, option
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.ClientError) and "Connect" not in name[:7]:
            assert name == "ClientError" or f"`{name}`" in TEXT, name
