"""The guide is a test: its examples run in order, and its diagram is the table's.

Its blocks are ```py, not ```python: they share a client, on a server that has every command.
"""

import asyncio
import inspect
from pathlib import Path

import holdfast
from holdfast.client import errors
from holdfast.client.protocol.connection_state import diagram
from holdfast.client.transport.options import ClientOptions
from tests.harness.guide import run_examples

GUIDE = Path(__file__).parents[2] / "docs" / "guide-client.md"
TEXT = GUIDE.read_text()


def test_the_examples_run(redis_url: str) -> None:
    async def scenario() -> None:
        async with holdfast.connect(redis_url) as client:
            await run_examples(GUIDE, TEXT, redis_url, client=client)

    asyncio.run(scenario())


def test_the_diagram_is_the_table() -> None:
    assert f"```mermaid\n{diagram()}```" in TEXT, "run scripts/generate_client.py"


def test_every_option_and_error_is_explained() -> None:
    for option in ClientOptions.__dataclass_fields__:
        if option not in ("host", "port", "path", "place", "tls"):
            assert f"`{option}`" in TEXT, option
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.ClientError) and "Connect" not in name[:7]:
            assert name == "ClientError" or f"`{name}`" in TEXT, name
