"""Notices, in the middle of a turn, that a client with a short request waits.

A turn of fifty clients with long pipelines takes milliseconds. uvloop reads sockets only between
two turns, so a client that sends one command at a time would wait for all of them. Sockets of such
clients are therefore in an epoll set of their own. While other clients run, the engine asks this
set from time to time, and ends the turn early if a socket of it is ready. To ask takes a
microsecond, and is not done while the set is empty.
"""

import select
from contextlib import suppress

HAS_EPOLL = hasattr(select, "epoll")  # only Linux has it


class ShortRequests:
    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._fds: set[int] = set()

    def watch(self, fd: int) -> None:
        """Watch the socket of a client whose requests are short."""
        if not HAS_EPOLL or fd < 0:
            return
        if self._epoll is None:
            self._epoll = select.epoll()
        with suppress(OSError):  # without it, the client waits for the end of each turn
            # Each event is told once. A client that has left would end each turn early otherwise.
            self._epoll.register(fd, select.EPOLLIN | select.EPOLLET)
            self._fds.add(fd)

    def forget(self, fd: int) -> None:
        if fd in self._fds:
            self._fds.discard(fd)
            assert self._epoll is not None
            with suppress(OSError):
                self._epoll.unregister(fd)

    def is_ready(self) -> bool:
        """Whether a request has come that was not read yet."""
        if not self._fds:
            return False
        assert self._epoll is not None
        return bool(self._epoll.poll(0, 1))

    def close(self) -> None:
        if self._epoll is not None:
            self._epoll.close()
            self._epoll = None
            self._fds.clear()
