"""What commands announce about keys: ours as the engine tells it, redis-server's as published."""

import re
from collections.abc import Iterable

from holdfast.store.keyspace import Database
from tests.harness import RawClient, RedisServer
from tests.harness.in_process import InProcess

Event = tuple[int, bytes, bytes]  # database, event, key
EVERYTHING = ("--notify-keyspace-events", "EAnm")

_PUBLISHED = re.compile(rb"__keyevent@(\d+)__:(\w+)\r\n\$\d+\r\n(.*)\r\n", re.DOTALL)


class Listening(InProcess):
    """The engine, and what it announced about keys."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.engine.keyspace.notify_kinds = ~0
        self.engine.keyspace.notify = self._announced

    def _announced(self, database: Database, name: bytes, event: bytes, kind: int) -> None:
        self.events.append((database.index, event, name))

    def announce(self, commands: Iterable[str]) -> list[list[Event]]:
        """The events of each command."""
        peer = self.peer()
        announced = []
        for command in commands:
            self.events = []
            peer.command(*command.split())
            announced.append(self.events)
        return announced


def published(server: RedisServer, commands: Iterable[str]) -> list[list[Event]]:
    """The events of each command as redis-server, which publishes EVERYTHING, has them."""
    with RawClient.connect(server.port) as client, RawClient.connect(server.port) as listener:
        client.command("FLUSHALL")
        listener.command("PSUBSCRIBE", "__keyevent@*")
        listener.command("SUBSCRIBE", "end")
        announced: list[list[Event]] = []
        for command in commands:
            client.command(*command.split())
            client.command("PUBLISH", "end", "")
            announced.append([])
            while match := _PUBLISHED.search(listener.read_reply()):
                announced[-1].append((int(match[1]), match[2], match[3]))
    return announced
