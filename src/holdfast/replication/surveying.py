"""ACTIVE DIGEST: all keys are looked at, a little at a time, and the reply comes when that is done.

A million keys take seconds. Clients are served meanwhile, and what they write counts as it was or
as it is when its turn comes: servers at rest give the same number, others need not.
"""

import logging
import time
from typing import TYPE_CHECKING

from holdfast.commands.context import Block
from holdfast.errors import INTERNAL, CommandError
from holdfast.resp import Reply
from holdfast.store.replicated_compare import Survey
from holdfast.store.replicated_keyspace import ReplicatedKeyspace

if TYPE_CHECKING:
    from holdfast.server.session import Session

log = logging.getLogger(__name__)

BUDGET_S = 0.002  # of each loop turn
BREAK_S = 0.0005
MOST_TOLD = 10  # differences, in the log
NOT_IN_MULTI = CommandError("ERR ACTIVE DIGEST takes too long to be part of a transaction")


class Surveying:
    """`block` is what the command returns: the session waits for no key, and is answered here."""

    def __init__(self, session: "Session") -> None:
        self.block = Block((), bytes, 0, when_denied=NOT_IN_MULTI)
        self._session = session
        self._engine = session.engine
        self._survey = self._begin()
        self._engine.clock.call_later(0, self._step)

    def _begin(self) -> Survey:
        keyspace = self._engine.keyspace
        assert isinstance(keyspace, ReplicatedKeyspace)
        return Survey(keyspace)

    @property
    def _is_awaited(self) -> bool:
        """Not when the client has left, or was told something else."""
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
        except Exception as error:  # a bug, or a file that cannot be read: nothing was changed
            log.error("ACTIVE DIGEST failed", exc_info=error)
            reply = INTERNAL
        assert self._session.waiter is not None
        self._engine.waiting.unblock(self._session.waiter, reply)


def _reply(survey: Survey) -> Reply:
    found = survey.found
    if not found:
        return b"%032x" % survey.digest
    for difference in found[:MOST_TOLD]:
        log.error("%s", difference)
    more = f" (and so on: {len(found)} keys)" if len(found) > 1 else ""
    return CommandError(f"ERR what clients see is not what is replicated: {found[0]}{more}")
