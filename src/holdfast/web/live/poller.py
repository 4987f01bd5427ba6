"""The task that asks the server for its figures, for all open pages and for the history.

While no page is open, it asks only as often as the history needs.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from holdfast.client import Client, ClosedError
from holdfast.errors import HoldfastError, StorageError
from holdfast.figures.view import View
from holdfast.figures.watch import ServerWatch
from holdfast.web.history.history_file import HistoryFile
from holdfast.web.history.rollup import Bucket, Rollup, values_of
from holdfast.web.live.hub import Hub
from holdfast.web.readers.pace import is_busy

log = logging.getLogger(__name__)

WATCHED_S = 2.0
BUSY_S = 5.0  # while a page is open, for a busy server
ALONE_S = 10.0
NOT_ASKED = "the server was not asked yet"
MOST_UNWRITTEN = 1080  # buckets in memory: an hour, in three resolutions


class Poller:
    def __init__(
        self,
        client: Client,
        address: str,
        hub: Hub,
        history: HistoryFile,
        render: Callable[["Poller"], dict[str, bytes]],
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        self.address = address
        self.view = View(address, unix_s(), trouble=NOT_ASKED)
        self.failed_since_s: float | None = None
        self.history_trouble = ""
        self.is_refused = False  # the server does not accept the login of the URL
        self.is_lent = False  # it uses the login of a user
        self._unix_s = unix_s
        self._hub = hub
        self._history = history
        self._rollup = Rollup()
        self._unwritten: list[Bucket] = []  # because another dashboard may have locked the file
        self._render = render
        self.ask_with(client)

    @property
    def run_id(self) -> str:
        return self._hub.run

    @property
    def is_away(self) -> bool:
        """Whether the server does not answer. False if it answers and refuses the login."""
        return self.view.trouble is not None and (self.is_lent or not self.is_refused)

    @property
    def pause_s(self) -> float:
        """The time until the next question."""
        if not self._hub.pages:
            return ALONE_S
        return BUSY_S if is_busy(self.view.cpu_share) else WATCHED_S

    @property
    def cpu_share(self) -> float | None:
        """The share of a core that the server uses. 1.0 if the last answer is old, because the
        dashboard or the server was too busy. None: the server does not tell it."""
        is_old = abs(self._unix_s() - self.view.at) > 1.5 * self.pause_s
        return 1.0 if is_old else self.view.cpu_share

    def lend(self, client: Client) -> None:
        """Use the login of a user, whose session may end at any time."""
        self.ask_with(client)
        self.is_lent = True

    def ask_with(self, client: Client) -> None:
        self._watch = ServerWatch(client, self.address, unix_s=self._unix_s, searches=False)

    async def run(self) -> None:
        """Ask until cancelled. Then write buckets that are not written yet."""
        try:
            while True:
                await self.poll()
                await self._hub.wait_for_page(self.pause_s)
        finally:
            self._hub.close()
            self._remember(self._rollup.flush())

    async def poll(self) -> None:
        now_s = self._unix_s()
        try:
            self.view = await self._watch.look()
        except HoldfastError as error:
            if isinstance(error, ClosedError):
                self.is_lent = False
            self.failed(error)
            return
        self.failed_since_s = None
        self._hub.publish(self._render(self))  # first: the file of the history may be locked
        ended = self._rollup.add(now_s, values_of(self.view))
        if ended:
            await asyncio.to_thread(self._remember, ended)

    def failed(self, error: HoldfastError) -> None:
        """Note that the server cannot be asked, and why, for the pages."""
        now_s = self._unix_s()
        if self.failed_since_s is None:
            self.failed_since_s = now_s
        self.view = View(self.address, now_s, trouble=str(error))
        self._hub.publish(self._render(self))

    def _remember(self, ended: list[Bucket]) -> None:
        self._unwritten = [*self._unwritten, *ended][-MOST_UNWRITTEN:]
        try:
            self._history.merge(self._unwritten)
            self._unwritten = []
            self.history_trouble = ""
        except StorageError as error:
            if not self.history_trouble:
                log.warning("the history is not written: %s", error)
            self.history_trouble = str(error)
