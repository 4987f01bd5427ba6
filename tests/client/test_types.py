"""What type checkers see. mypy checks this file; running it checks that it is also true."""

import asyncio
from typing import Any, assert_type

import holdfast
import holdfast.sync
from holdfast.client.client import Client, Failure
from holdfast.client.convert import optional
from holdfast.client.request import Request


def test_results_have_exact_types() -> None:
    async def scenario() -> None:
        async with holdfast.connect("memory://") as client:
            assert_type(client, Client)
            assert_type(await client.set("k", "v"), bool)
            assert_type(await client.get("k"), str | None)
            assert_type(await client.binary.get("k"), bytes | None)
            assert_type(await client.mget("k", "l"), list[str | None])
            assert_type(await client.blpop("q", timeout_s=0.001), tuple[str, str] | None)
            assert_type(await client.exec("STRLEN", "k", into=int), int)
            assert_type(await client.exec("GET", "k", into=optional(str)), str | None)
            assert_type(await client.exec("MGET", "k", into=list[str]), list[str])
            assert_type(await client.exec("GET", "k"), Any)
            two = Request().add("GET", "k").add("STRLEN", "k")
            assert_type(
                await client.exec(two, into=(str, int)), tuple[str | Failure, int | Failure]
            )
            assert_type(await client.exec_dynamic(two, into=str), list[str | Failure])

    asyncio.run(scenario())


def test_blocking_results_are_plain() -> None:
    with holdfast.sync.connect("memory://") as client:
        assert_type(client.set("k", "v"), bool)
        assert_type(client.get("k"), str | None)
        assert_type(client.binary.get("k"), bytes | None)
        assert_type(client.exec("STRLEN", "k", into=int), int)
        assert_type(client.exec_dynamic(Request().add("GET", "k"), into=str), list[str | Failure])
