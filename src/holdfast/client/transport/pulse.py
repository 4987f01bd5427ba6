"""Notices that nothing comes over a connection although a reply is owed.

TCP does not notice it: the system of a stopped server still acknowledges bytes, and so does a proxy
that swallows them. So while a reply is owed, a pulse looks once a second whether anything has come.
It only reports; `silence` decides.
"""

from collections.abc import Callable
from typing import Protocol

from holdfast.clock import Clock, Timer

LOOK_S = 1.0


class Watched(Protocol):
    """The connection."""

    clock: Clock
    on_silence: Callable[[float], None] | None
    on_quiet: Callable[[], None] | None

    @property
    def is_connected(self) -> bool: ...

    @property
    def is_owed(self) -> bool: ...

    @property
    def heard(self) -> object: ...


class Pulse:
    __slots__ = ("_heard", "_since_s", "_timer", "_watched")

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._timer: Timer | None = None
        self._heard: object = None
        self._since_s = 0.0

    def start(self) -> None:
        """Called when bytes are sent. Does nothing while the pulse runs."""
        if self._timer is None:
            self._notice()
            self._arm()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._watched.clock.call_later(LOOK_S, self._look)

    def _notice(self) -> None:
        self._heard = self._watched.heard
        self._since_s = self._watched.clock.monotonic_s()

    def _look(self) -> None:
        self._timer = None
        watched = self._watched
        if not watched.is_connected:
            return  # the first flush of the reopened connection starts the pulse again
        if watched.heard != self._heard:
            self._notice()
        elif watched.is_owed:
            if watched.on_silence is not None:
                watched.on_silence(watched.clock.monotonic_s() - self._since_s)
        else:
            self._since_s = watched.clock.monotonic_s()
            if watched.on_quiet is not None:
                watched.on_quiet()
        if watched.is_owed or watched.on_quiet is not None:
            self._arm()
