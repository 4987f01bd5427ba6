"""The structure that everything else relies on. Each test fails when its invariant is broken."""

import ast
import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast
import holdfast.client as package
from holdfast.client.errors import ConversionError

SOURCES = sorted(Path(package.__file__).parent.rglob("*.py"))


def attributes(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def test_only_the_link_touches_a_transport() -> None:
    users = {path.name for path in SOURCES if "_transport" in attributes(path)}
    assert users == {"link.py"}


def test_only_the_connection_changes_its_state_and_holds_the_link() -> None:
    def assigned(path: Path) -> set[str]:
        tree = ast.parse(path.read_text())
        return {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }

    assert {path.name for path in SOURCES if "_link" in assigned(path)} == {"connection.py"}
    # A cluster has a state of its own; it is no connection.
    assert {path.name for path in SOURCES if "state" in assigned(path)} == {
        "connection.py",
        "cluster.py",
    }


def test_locks_are_not_needed() -> None:
    for path in SOURCES:
        if path.name != "foreign_clients.py":  # adapts the clients of others, which need some
            assert not attributes(path) & {"Lock", "RLock", "Condition", "Semaphore"}, path.name


def test_conversion_runs_in_the_callers_task() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            seen: list[Any] = []

            def convert(reply: Any) -> Any:
                seen.append(asyncio.current_task())
                return reply

            assert await client.exec("PING", into=convert) == b"PONG"
            assert seen == [asyncio.current_task()]

    asyncio.run(scenario())


def test_a_failing_conversion_is_one_callers_problem() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:

            def explode(_: Any) -> Any:
                raise ZeroDivisionError

            first = asyncio.create_task(client.exec("PING", into=explode))
            second = asyncio.create_task(client.exec("ECHO", "x", into=int))
            third = asyncio.create_task(client.exec("ECHO", "y", into=str))
            with pytest.raises(ConversionError, match="ZeroDivisionError"):
                await first
            with pytest.raises(ConversionError):
                await second
            assert await third == "y"
            assert client.is_connected

    asyncio.run(scenario())


def test_callers_resume_in_their_own_turn_never_inside_the_reader() -> None:
    """The caller's next code must not run while replies are being read."""

    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            connection = client._caller.connection  # type: ignore[attr-defined]
            reading = False
            inner = connection.on_replies

            def on_replies(replies: list[Any]) -> None:
                nonlocal reading
                reading = True
                inner(replies)
                reading = False

            connection.on_replies = on_replies

            async def caller() -> None:
                await client.ping()
                assert not reading

            await asyncio.gather(*(caller() for _ in range(20)))

    asyncio.run(scenario())
