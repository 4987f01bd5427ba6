"""An engine in this process, and one client whose replies are not encoded."""

from holdfast.errors import CommandError
from holdfast.resp import Reply
from holdfast.server import families as families
from holdfast.server.config import Config
from holdfast.server.engine import Engine
from holdfast.server.scripts import NoSink
from holdfast.server.session import Session
from holdfast.store.store import Store


class Running:
    def __init__(self, store: Store) -> None:
        self.engine = Engine(store, Config())
        self.engine.turn.set_appendfsync("everysec")  # which nobody does here
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
