"""A client of an engine that reads replies as Python values: conversations are short to write."""

from typing import Any

import hiredis

from tests.commands.listening import Listening
from tests.harness.in_process import Peer


def parsed(reply: bytes) -> Any:
    """Texts as str, an error as the text that follows the minus."""
    reader = hiredis.Reader(encoding="utf-8", errors="backslashreplace")
    reader.feed(reply)
    value = reader.gets()
    return str(value) if isinstance(value, Exception) else value


class Talk:
    """An engine with a clock that stands still, and one client of it."""

    def __init__(self, *commands: str, protocol: int = 2) -> None:
        self.setting = Listening()
        self.peer = self.setting.peer(protocol)
        for command in commands:
            self(command)
        self.setting.events()

    def __call__(self, command: str) -> Any:
        return parsed(self.peer.command(*command.split()))

    def events(self) -> list[tuple[str, str]]:
        """Event and key, of those since the last look."""
        return [(event.decode(), key.decode()) for _, event, key in self.setting.events()]

    def waiting(self, command: str) -> Peer:
        return self.setting.blocked(*command.split())

    def pass_time(self, seconds: float) -> None:
        self.setting.clock.advance(seconds)
