"""ACTIVE DIGEST: compares all keys, a few at a time, and replies at the end.

A million keys take seconds, and clients are served meanwhile. A key that a client changes counts
either in its old state or in its new one. So servers without writes give the same number, busy
servers may differ.
"""

import logging
import time

from holdfast.commands.context import Block
from holdfast.errors import INTERNAL, CommandError
from holdfast.resp import Reply
from holdfast.server.core.engine import engine_of
from holdfast.server.sessions.session import Session
from holdfast.store.replicated.replicated_keyspace import ReplicatedKeyspace
from holdfast.store.replicated.survey import Survey

log = logging.getLogger(__name__)

BUDGET_S = 0.002  # for each turn of the loop
BREAK_S = 0.0005
MOST_TOLD = 10  # differences for the log
NOT_IN_MULTI = CommandError("ERR ACTIVE DIGEST takes too long to be part of a transaction")


class Surveying:
    """One ACTIVE DIGEST. `block` is the result of the command: the session waits, for no key, until
    it is answered here."""

    def __init__(self, session: Session) -> None:
        self.block = Block((), bytes, 0, when_denied=NOT_IN_MULTI)
        self._session = session
        self._engine = engine_of(session)
        self._survey = self._begin()
        self._engine.clock.call_later(0, self._step)

    def _begin(self) -> Survey:
        keyspace = self._engine.keyspace
        assert isinstance(keyspace, ReplicatedKeyspace)
        return Survey(keyspace)

    @property
    def _is_awaited(self) -> bool:
        """Whether the client still waits. It may have left, or may have got another reply."""
        waiter = self._session.waiter
        return waiter is not None and waiter.block is self.block

    def _step(self) -> None:
        if not self._is_awaited:
            return
        if self._survey.is_outdated:
            self._survey = self._begin()
        deadline_s = time.monotonic() + BUDGET_S
        try:
            while self._survey.step():
                if time.monotonic() >= deadline_s:
                    self._engine.clock.call_later(BREAK_S, self._step)
                    return
            reply = _reply(self._survey)
        except Exception as error:  # a bug, or an unreadable file; nothing has changed
            log.error("ACTIVE DIGEST failed", exc_info=error)
            reply = INTERNAL
        assert self._session.waiter is not None
        self._engine.blocking.unblock(self._session.waiter, reply)


def _reply(survey: Survey) -> Reply:
    found = survey.found
    if not found:
        return b"%032x" % survey.digest
    for difference in found[:MOST_TOLD]:
        log.error("%s", difference)
    more = f" (and so on: {len(found)} keys)" if len(found) > 1 else ""
    return CommandError(f"ERR keys differ from their replicated values: {found[0]}{more}")
