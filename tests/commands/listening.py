"""The keyspace events of commands, as published by Holdfast and by redis-server."""

import re
from collections.abc import Iterable

from tests.harness import RawClient, RedisServer
from tests.harness.in_process import InProcess

Event = tuple[int, bytes, bytes]  # database, event, key
FLAGS = "EAnm"
EVERYTHING = ("--notify-keyspace-events", FLAGS)

_PUBLISHED = re.compile(rb"__keyevent@(\d+)__:([\w-]+)\r\n\$\d+\r\n(.*)\r\n", re.DOTALL)


def _event(message: bytes) -> Event | None:
    match = _PUBLISHED.search(message)
    return None if match is None else (int(match[1]), match[2], match[3])


class Listening(InProcess):
    """The engine, and a client that receives the keyspace events."""

    def __init__(self) -> None:
        super().__init__({"notify-keyspace-events": FLAGS})
        self._listener = self.peer()
        self._listener.command("PSUBSCRIBE", "__keyevent@*")

    def announce(self, commands: Iterable[str]) -> list[list[Event]]:
        """The events of each command."""
        peer = self.peer()
        announced = []
        for command in commands:
            peer.command(*command.split())
            announced.append(self.events())
        return announced

    def events(self) -> list[Event]:
        """Those since the last look."""
        return [event for message in self._listener.replies() if (event := _event(message))]


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
            while event := _event(listener.read_reply()):
                announced[-1].append(event)
    return announced
