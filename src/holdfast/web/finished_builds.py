"""The index of finished builds, which all users of the dashboard share, and the task that fills
it.
"""

import asyncio
from weakref import WeakKeyDictionary

from holdfast.errors import HoldfastError
from holdfast.web.dashboard import Dashboard
from holdfast.web.readers.asking import server_time_s
from holdfast.web.readers.builds import BuildIndex, BuildReader

PAUSE_S = 0.05  # between two steps, so that the server and the pages stay fast


class FinishedBuilds:
    """The index. A page must ask the queue first, because the index does not know what a user may
    see."""

    def __init__(self, dashboard: Dashboard) -> None:
        history = dashboard.settings.history
        self.index = BuildIndex(":memory:" if history is None else f"{history}-builds")
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @staticmethod
    def label(db: int, queue: str) -> str:
        """The name of a queue in the index: each database has its own."""
        return f"{db} {queue}"

    async def fill(self, reader: BuildReader, db: int, queue: str, within_s: float) -> bool:
        """Read the builds that ended since the last call, in the background. Returns after a
        moment; True if the index is up to date by then."""
        label = self.label(db, queue)
        task = self._tasks.get(label)
        if task is None or task.done():
            task = self._tasks[label] = asyncio.create_task(self._fill(reader, queue, label))
        await asyncio.wait([task], timeout=within_s)
        return task.done()

    async def _fill(self, reader: BuildReader, queue: str, label: str) -> None:
        try:
            now_ms = int(1000 * await server_time_s(reader.client))
            is_more = True
            while is_more:
                is_more = await asyncio.to_thread(self.index.drop_old, now_ms)
                await asyncio.sleep(PAUSE_S if is_more else 0)
            step: tuple[int, int] | None = (now_ms, 0)
            while step is not None:
                step = await reader.feed(queue, self.index, label, step[0])
                await asyncio.sleep(PAUSE_S if step is not None else 0)
        except HoldfastError:
            return  # the next request for the page tries again

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self.index.close()


_OF_DASHBOARDS: WeakKeyDictionary[Dashboard, FinishedBuilds] = WeakKeyDictionary()


def finished_builds(dashboard: Dashboard) -> FinishedBuilds:
    """The index, which is opened at the first use and closed with the dashboard."""
    if dashboard not in _OF_DASHBOARDS:
        _OF_DASHBOARDS[dashboard] = made = FinishedBuilds(dashboard)
        dashboard.at_stop.append(made.close)
    return _OF_DASHBOARDS[dashboard]
