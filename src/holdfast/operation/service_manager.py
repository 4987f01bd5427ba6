"""Messages to systemd about the server, by its protocol sd_notify: datagrams of lines NAME=value to
the socket that NOTIFY_SOCKET names.
"""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from holdfast.log_lines import one_line

log = logging.getLogger(__name__)

# While the server opens its file or closes it, it asks for more time, again and again. Only a
# process that does not ask any more is killed.
EXTEND_S = 60
EXTEND_EVERY_S = 10

SEND_TIMEOUT_S = 1.0


class ServiceManager:
    """The program that started the server, or none: then nothing is sent."""

    def __init__(self, address: str = "", watchdog_s: float = 0.0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog_s = watchdog_s if address else 0.0
        self._beaten_s = 0.0
        self._has_failed = False
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def of(cls, supervised: str, environ: MutableMapping[str, str]) -> "ServiceManager":
        """The manager that the environment names, if the setting `supervised` asks for one. Takes
        its variables out of the environment: they are not meant for child processes."""
        if supervised not in ("systemd", "auto"):
            return cls()
        address, usec, pid = (
            environ.pop(name, "") for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        )
        if not address.startswith(("/", "@")):
            if supervised == "systemd":
                log.warning("supervised systemd has no effect: NOTIFY_SOCKET names no socket")
            return cls()
        is_watched = usec.isdecimal() and pid in ("", str(os.getpid()))
        return cls(address, int(usec) / 1_000_000 if is_watched else 0.0)

    def ready(self, status: str) -> None:
        self._tell(f"READY=1\nSTATUS={one_line(status)}")

    def reloading(self) -> None:
        """`ready` must follow."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str) -> None:
        self._tell(f"STOPPING=1\nSTATUS={one_line(status)}")

    # -- the watchdog -------------------------------------------------------------------------

    def start_watchdog(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send a beat from a timer of the loop, so that a loop that hangs sends none."""
        if self._watchdog_s:
            self._beat()
            self._timer = loop.call_later(self._watchdog_s / 2, self.start_watchdog, loop)

    def beat_if_due(self) -> None:
        """For work that keeps the loop for long but does not hang: a script."""
        if self._watchdog_s and time.monotonic() - self._beaten_s >= self._watchdog_s / 2:
            self._beat()

    def stop_watchdog(self) -> None:
        """When `stopping` was sent, systemd does not wait for beats any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self._beaten_s = time.monotonic()
        self._tell("WATCHDOG=1")

    # -- more time ----------------------------------------------------------------------------

    @contextmanager
    def asking_for_time(self, status: str) -> Iterator[None]:
        """Meanwhile the main thread does something that may take long, such as a recovery."""
        if not self._address:
            yield
            return
        is_done = threading.Event()

        def ask() -> None:
            while True:
                self._tell(f"EXTEND_TIMEOUT_USEC={EXTEND_S * 1_000_000}\nSTATUS={one_line(status)}")
                if is_done.wait(EXTEND_EVERY_S):
                    return

        thread = threading.Thread(target=ask, name="holdfast-asks-for-time", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_done.set()
            thread.join()

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.settimeout(SEND_TIMEOUT_S)
                sock.sendto(text.encode("utf-8", "backslashreplace"), self._address)
        except OSError as error:
            if not self._has_failed:  # the next message may arrive: systemd restarts itself, too
                self._has_failed = True
                log.warning("cannot send messages to the service manager: %s", error)
