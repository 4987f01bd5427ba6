"""Notes commands with large requests or replies, for COMMANDLOG."""

from holdfast.commands.table import Command
from holdfast.server.features.hotkeys import request_bytes
from holdfast.server.features.slowlog import SlowLog
from holdfast.server.sessions.session import Session


class CommandSizes:
    """Observes commands while one of the limits is set. -1 means no limit."""

    def __init__(self, large_requests: SlowLog, large_replies: SlowLog) -> None:
        self._large_requests = large_requests
        self._large_replies = large_replies
        self.most_request_bytes = self.most_reply_bytes = -1

    @property
    def has_limits(self) -> bool:
        return self.most_request_bytes >= 0 or self.most_reply_bytes >= 0

    def saw(
        self,
        session: Session,
        command: Command,
        argv: list[bytes],
        elapsed_ns: int,
        reply_bytes: int,
    ) -> None:
        for log, nbytes, most in (
            (self._large_requests, request_bytes(argv), self.most_request_bytes),
            (self._large_replies, reply_bytes, self.most_reply_bytes),
        ):
            if 0 <= most <= nbytes and "skip_slowlog" not in command.flags:
                now_s = session.keyspace.now_s
                log.add(command.name, argv, now_s, nbytes, session.address, session.name)
