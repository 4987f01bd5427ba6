"""The log of a server: one line for each event, to stderr or to a file, as text or as JSON."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from holdfast.errors import UnavailableError
from holdfast.log_lines import LEVELS, NAMES, one_line

log = logging.getLogger(__name__)

# Of syslog, by the names of our levels: journald reads them at the beginning of a line.
PRIORITIES = {"debug": 7, "verbose": 6, "notice": 5, "warning": 4, "error": 3, "critical": 2}


def event(name: str, **fields: Any) -> dict[str, Any]:
    """For `extra` of a call of the log: fields that a line in JSON has beside its sentence."""
    return {"event": {"event": name, **fields}}


@contextmanager
def logging_to(path: str, form: str, loglevel: str) -> Iterator["LogWriter"]:
    """Write the log to this file, or to stderr if `path` is empty. Raises UnavailableError."""
    try:
        writer = LogWriter(path)
    except OSError as error:
        raise UnavailableError(f"cannot write {path}: {error.strerror}") from None
    lines: logging.Formatter = JsonLines() if form == "json" else TextLines()
    if not path and _is_journal(sys.stderr.fileno(), os.environ):
        lines = JournalLines(lines if form == "json" else None)
    writer.setFormatter(lines)
    logger = logging.getLogger("holdfast")
    logger.setLevel(LEVELS[loglevel])
    logger.addHandler(writer)
    logger.propagate = False
    try:
        yield writer
    finally:
        logger.propagate = True
        logger.removeHandler(writer)
        writer.close()


class LogWriter(logging.Handler):
    """Appends lines to a file by its name. When another program has renamed or removed the file,
    the next line goes to a new file of that name. A log that cannot be written stops nothing:
    lost lines are counted, and the log says so when it works again."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._fd = self._open() if path else sys.stderr.fileno()
        self._lost = 0
        self._complaint = ""

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def emit(self, record: logging.LogRecord) -> None:
        if self._path and not self._is_in_place():
            self.reopen()
        data = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self._lost += 1
            self._complain(error)
            return
        if self._lost:
            lost, self._lost, self._complaint = self._lost, 0, ""
            log.warning("%d lines of the log are lost", lost, extra=event("log_lost", lines=lost))

    def reopen(self) -> None:
        """Go on in the file that has the name now. If it cannot be opened, the old one is used."""
        if not self._path:
            return
        self.acquire()
        try:
            old, self._fd = self._fd, self._open()
            os.close(old)
        except OSError as error:
            self._complain(error)
        finally:
            self.release()

    def close(self) -> None:
        if self._path:
            os.close(self._fd)
        super().close()

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except OSError:
            return False

    def _complain(self, error: OSError) -> None:
        """Once for each reason, to the place where an operator looks next."""
        sentence = f"holdfast: cannot write {self._path or 'the log'}: {error.strerror}"
        if sentence != self._complaint:
            self._complaint = sentence
            try:
                os.write(sys.stderr.fileno(), f"{one_line(sentence)}\n".encode())
            except OSError:
                pass


class TextLines(logging.Formatter):
    """Time in UTC, process, level and sentence. The lines of a traceback follow, indented."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_time(record)} {record.process} {_level(record)} "
        return head + "\n    ".join(_lines(record))


class JsonLines(logging.Formatter):
    """One object a line. docs/guide-operating.md lists the fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": _level(record),
            "pid": record.process,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "event", {}),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(_encodable(fields)).decode()


class JournalLines(logging.Formatter):
    """For journald, which adds time and process itself: each line begins with its priority."""

    def __init__(self, inner: logging.Formatter | None) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        priority = f"<{PRIORITIES[_level(record)]}>"
        lines = _lines(record) if self._inner is None else [self._inner.format(record)]
        return priority + f"\n{priority}    ".join(lines)


def _is_journal(fd: int, environ: Mapping[str, str]) -> bool:
    """Whether journald reads this file: systemd names the file of journald in a variable."""
    status = os.fstat(fd)
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _level(record: logging.LogRecord) -> str:
    return NAMES.get(record.levelno, "notice")


def _lines(record: logging.LogRecord) -> list[str]:
    """The sentence, and the lines of a traceback if there is one."""
    lines = [record.getMessage()]
    if record.exc_info:
        lines += logging.Formatter().formatException(record.exc_info).split("\n")
    return [one_line(line) for line in lines]


def _encodable(value: Any) -> Any:
    """Without the half characters by which Python names bytes of file names that are not UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {name: _encodable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_encodable(each) for each in value]
    return value
