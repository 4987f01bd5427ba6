"""Filters of CLIENT LIST and CLIENT KILL that find something. (Errors are compared with Redis and
Valkey in tests/wire.)"""

import re

import pytest

from tests.commands.asking import ask
from tests.harness.in_process import InProcess


def found(setting: InProcess, filters: str) -> set[int]:
    reply = setting.peer().command("CLIENT", "LIST", *filters.split())
    return {int(number) for number in re.findall(rb"^id=(\d+)", reply, re.MULTILINE)}


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ("NAME writer", "writer"),
        ("LIB-NAME lib", "reader"),
        ("LIB-VER 1.2", "reader"),
        ("NOT-LIB-NAME lib NOT-NAME writer DB 0 SKIPME yes", "waiter"),
        ("DB 3", "writer"),
        ("FLAGS b", "waiter"),
        ("FLAGS x", "reader"),
        ("CAPA r", "reader"),
        ("USER someone", "writer"),
        ("ID 1 2 TYPE normal DB 3", "writer"),
        ("ID 1 ID 2", "reader"),
        ("NOT-ID 1 2 SKIPME yes", "waiter"),
        ("ADDR peer:0 DB 3", "writer"),
        ("IP peer DB 3", "writer"),
        ("LADDR peer:0 NAME writer", "writer"),
        ("IDLE 60 DB 3", "writer"),
        ("MAXAGE 60 FLAGS b", "waiter"),
        ("MAXAGE 120", ""),
    ],
)
def test_filters(filters: str, names: str) -> None:
    setting = InProcess()
    writer, reader = setting.peer(), setting.peer()
    for line in ("CLIENT SETNAME writer", "ACL SETUSER someone on nopass +@all", "AUTH someone x"):
        ask(writer, line)
    ask(writer, "SELECT 3")
    ask(reader, "CLIENT SETINFO LIB-NAME lib")
    ask(reader, "CLIENT SETINFO LIB-VER 1.2")
    ask(reader, "CLIENT CAPA redirect other")
    ask(reader, "MULTI")
    waiter = setting.blocked("BLPOP", "nothing", 0)
    setting.clock.advance(61)
    ids = {"writer": writer.session.id, "reader": reader.session.id, "waiter": waiter.session.id}
    assert found(setting, filters) == {ids[name] for name in names.split()}


def test_kill_by_several_filters() -> None:
    setting = InProcess()
    one, two = setting.peer(), setting.peer()
    ask(one, "SELECT 3")
    ask(two, "SELECT 3")
    me = setting.peer()
    assert ask(me, f"CLIENT KILL DB 3 NOT-ID {one.session.id}") == 1
    assert found(setting, "DB 3") == {one.session.id}
    assert ask(me, f"CLIENT KILL ID {one.session.id} {me.session.id} SKIPME no TYPE normal") == 2
