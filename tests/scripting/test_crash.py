"""Killed in the middle of scripts and functions under load: of each all is there, or nothing."""

import random
import threading
from collections.abc import Callable

from tests.harness import HoldfastServer, RawClient

SCRIPT = """
    local n = redis.call('incr', 'count')
    redis.call('rpush', 'list', n)
    redis.call('set', 'key:' .. n, ARGV[1])
    if ARGV[1] % 7 == 3 then error('taken back') end
    redis.call('incr', 'twin')
    return n
"""
LIBRARY = f"#!lua name=lib\nredis.register_function('f', function(KEYS, ARGV) {SCRIPT} end)"
CLIENTS, KILLS = 8, 3


def run_scripts(port: int, acknowledged: list[bytes], may_go_on: threading.Event) -> None:
    try:
        with RawClient.connect(port) as client:
            for number in range(100_000):
                command = ("FCALL", "f") if number % 2 else ("EVAL", SCRIPT)
                reply = client.command(*command, 0, number)
                if reply[:1] == b":":
                    acknowledged.append(reply)
                if len(acknowledged) >= 50:
                    may_go_on.set()
    except (AssertionError, OSError):
        return  # it was killed


def number_of(reply: bytes) -> int:
    text = reply.split(b"\r\n")[1 if reply[:1] == b"$" else 0]
    return int(text.removeprefix(b":"))


def test_all_of_a_script_or_nothing(
    start_server: Callable[..., HoldfastServer], rng: random.Random
) -> None:
    server = start_server()
    server.client().command("FUNCTION", "LOAD", LIBRARY)  # and it outlives every kill
    for _ in range(KILLS):
        with RawClient.connect(server.port) as client:
            client.command("FLUSHALL")
        acknowledged: list[bytes] = []
        may_go_on = threading.Event()
        threads = [
            threading.Thread(target=run_scripts, args=(server.port, acknowledged, may_go_on))
            for _ in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        assert may_go_on.wait(20)
        more = rng.randrange(300)
        while len(acknowledged) < 50 + more and any(thread.is_alive() for thread in threads):
            pass
        server.kill()
        for thread in threads:
            thread.join()
        server.start()
        with RawClient.connect(server.port) as client:
            count = number_of(client.command("GET", "count"))
            assert number_of(client.command("GET", "twin")) == count
            assert number_of(client.command("LLEN", "list")) == count
            assert number_of(client.command("DBSIZE")) == count + 3
            assert count >= max(map(number_of, acknowledged))
