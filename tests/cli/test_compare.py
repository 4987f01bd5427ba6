"""`holdfast compare` as a user sees it: sentences, exit codes, JSON."""

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.test_migration import Run, WriteRdb
from tests.cli.test_migration import run as run
from tests.harness import HoldfastServer, RedisServer
from tests.harness.valkey import ValkeyServer
from tests.migration.conftest import text
from tests.migration.conftest import write_rdb as write_rdb
from tests.migration.contents import FAR_MS, connect, fill
from tests.migration.test_importing import with_module

Start = Callable[..., HoldfastServer]
DIFFERENT = [
    text(b"same", at_ms=FAR_MS),
    text(b"value", b"one"),
    text(b"expiry", at_ms=FAR_MS),
    text(b"\xffodd\n"),
    text(b"third", database=3),
]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "server") as server:
        yield server


def test_every_difference_is_named(run: Run, write_rdb: WriteRdb, redis: RedisServer) -> None:
    write_rdb(DIFFERENT)
    assert run("import", "dump.rdb", "--db", "app.db")[0] == 0
    with connect(redis.port) as client:
        client.set("same", "x", pxat=FAR_MS + 900)
        client.set("value", "ones")
        client.set("expiry", "x", pxat=FAR_MS + 1100)
        client.rpush("more", "x")
    there = f"127.0.0.1:{redis.port}"
    expiries = f"at {FAR_MS} ms and at {FAR_MS + 1100} ms"
    for first in ("app.db", "dump.rdb"):
        code, out, err = run("compare", first, f"redis://{there}")
        assert (code, err) == (1, "")
        assert sorted(out.splitlines()) == [
            f"{first} and {there}: 6 keys, 5 differences",
            f"key 'expiry' of database 0 has another expiry: {expiries}",
            "key 'value' of database 0 has another value: from byte 3 on (3 and 4 bytes)",
            f"only in {there}: key 'more' of database 0",
            f"only in {first}: key '\\\\xffodd\\n' of database 0",
            f"only in {first}: key 'third' of database 3",
        ]
    code, out, err = run("compare", f"redis://{there}", "app.db", "--match", "[ev]*", "--json")
    assert (code, err) == (1, "")
    *found, summary = map(json.loads, out.splitlines())
    assert sorted(each["difference"] for each in found) == ["expiry", "value"]
    assert summary == {"keys": 2, "differences": 2, "not_compared": 0}
    code, *_ = run("compare", "app.db", f"redis://{there}", "--match", "same")
    assert code == 0
    code, *_ = run("compare", "app.db", f"redis://{there}", "--match=same", "--tolerance", "800")
    assert code == 1


def test_databases_may_have_other_numbers(run: Run, write_rdb: WriteRdb) -> None:
    write_rdb([text(b"a"), text(b"b", database=1)])
    run("import", "dump.rdb", "--db", "app.db", "--db-map=0:1", "--db-map=1:0")
    assert run("compare", "dump.rdb", "app.db")[0] == 1
    code, out, _ = run("compare", "dump.rdb", "app.db", "--db-map=0:1", "--db-map=1:0")
    assert (code, out) == (0, "dump.rdb and app.db: 2 keys, no differences\n")


@pytest.mark.parametrize("server", [RedisServer, ValkeyServer])
def test_a_server_equals_what_was_exported_to_it(
    run: Run, server: type[RedisServer], tmp_path: Path, rng: random.Random, start_server: Start
) -> None:
    ours = start_server()
    fill(ours.port, rng)
    with server(tmp_path / "there") as other:
        url = f"redis://127.0.0.1:{other.port}"
        assert run("compare", ours.db, url)[0] == 1
        assert run("export", "--db", ours.db, url)[0] == 0
        code, out, _ = run("compare", ours.db, url)
        assert (code, out.endswith("36 keys, no differences\n")) == (0, True)
        assert run("compare", url, f"redis://127.0.0.1:{ours.port}")[0] == 0
        with connect(other.port) as client:
            client.function_flush()
        code, out, _ = run("compare", ours.db, url)
        assert code == 1
        assert out.startswith(f"only in {ours.db}: library '#!lua name=lib'\n")


def test_what_cannot_be_compared_exits_with_2(
    run: Run, write_rdb: WriteRdb, redis: RedisServer
) -> None:
    write_rdb([text(b"a")])
    url = f"redis://127.0.0.1:{redis.port}"
    for argv, sentence in (
        (["dump.rdb", "missing"], "cannot read missing: No such file"),
        (["dump.rdb", "redis://127.0.0.1:1"], "cannot use 127.0.0.1:1: "),
        (["dump.rdb", "redis://h:x"], "the port in the URL is no whole number"),
        (["dump.rdb", "holdfast:///app.db"], "a server has a URL such as redis://host:6379"),
        (["dump.rdb", url, "--tolerance=-1"], "--tolerance is a number of milliseconds"),
        (["dump.rdb"], "the following arguments are required: B"),
        (["module.rdb", url], "of a module, which Holdfast does not have"),
    ):
        Path("module.rdb").write_bytes(with_module())
        code, out, err = run("compare", *argv)
        assert (code, out) == (2, ""), (argv, err)
        assert re.fullmatch(r"holdfast: .*\n", err), err
        assert sentence in err
