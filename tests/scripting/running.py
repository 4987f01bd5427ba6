"""An engine in this process, and one client whose replies are not encoded."""

from holdfast import all_commands as all_commands
from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.server.config.config import Config
from holdfast.server.core.engine import Engine
from holdfast.server.scripts.scripts import NoSink
from holdfast.server.sessions.session import Session
from holdfast.store.store import Store


class Running:
    def __init__(self, store: Store) -> None:
        self.engine = Engine(store, Config())
        self.engine.turn.set_appendfsync("everysec")  # and no timer runs here that syncs
        self.session = Session(self.engine, NoSink(), "test", "test")
        self.engine.connected(self.session)
        self._replies: list[Reply] = []
        self.session.encode = self._keep

    def _keep(self, reply: Reply) -> bytes:
        self._replies.append(reply)
        return b""

    def do(self, *argv: bytes) -> Reply:
        self.engine.receive(self.session, [list(argv)])
        return self._replies.pop()

    def many(self, *argv: bytes) -> list[Reply]:
        reply = self.do(*argv)
        assert isinstance(reply, (list, tuple))
        return list(reply)

    def error(self, *argv: bytes) -> bytes:
        reply = self.do(*argv)
        assert isinstance(reply, CommandError)
        return reply.message
