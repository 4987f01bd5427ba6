"""Every exception that Holdfast raises on purpose. Imports nothing."""

LONGEST_CODE = 30


class HoldfastError(Exception):
    """The base class of all exceptions that Holdfast raises on purpose."""


class CommandError(HoldfastError):
    """An error reply. `message` is the whole line, code first, without `-` and CRLF.

    The message is always one line. As in Redis, a line end inside the text becomes a blank, and
    line ends at its end are removed.

    Many errors are constants that are raised again and again. Python appends each raise to the
    traceback that the error already has, and the frames in a traceback keep their arguments alive.
    So the code that catches a constant error drops its traceback.

    `is_counted`: INFO errorstats has already counted this error, because a command that a script
    called raised it.
    """

    is_counted = False

    def __init__(self, message: str | bytes) -> None:
        text = message.encode() if isinstance(message, str) else message
        self.message = text.rstrip(b"\r\n").replace(b"\r", b" ").replace(b"\n", b" ")
        super().__init__(self.message.decode("utf-8", "replace"))

    @property
    def code(self) -> bytes:
        """The first word: `ERR`, `WRONGTYPE`, …"""
        return self.message.split(b" ", 1)[0]

    @property
    def counted_as(self) -> bytes:
        """The code under which INFO errorstats counts this error. As in Redis, an error of a script
        counts as ERR if its text has no space near the beginning."""
        end = self.message.find(b" ", 0, LONGEST_CODE + 1)
        return self.message[:end] if end >= 0 else b"ERR"


class ProtocolError(HoldfastError):
    """The peer sent bytes that are not RESP. The rest of the stream cannot be trusted."""


class ConfigError(HoldfastError):
    """A configuration file, option or value is wrong. The message says which one and why."""


class UnavailableError(HoldfastError):
    """The server cannot have an address or a file that it needs: another server listens there, or
    a folder is missing. The configuration may be right, so a later start may succeed."""


class StorageError(HoldfastError):
    """The database file cannot be opened, read or written."""


class StoreInUseError(StorageError):
    """Another process (or another engine in this one) has the file open."""


class StoreBusyError(StorageError):
    """Another program is writing to the file. Nothing was written; the caller may try again."""


class HalfDoneError(HoldfastError):
    """An operation failed after it had changed something: a handler has a bug, or a peer sent a
    message that cannot be applied."""


INTERNAL = CommandError("ERR internal error, see the server's log")
OUT_OF_MEMORY = CommandError("OOM command not allowed when used memory > 'maxmemory'.")
WRONG_TYPE = CommandError("WRONGTYPE Operation against a key holding the wrong kind of value")
SYNTAX = CommandError("ERR syntax error")
NOT_AN_INTEGER = CommandError("ERR value is not an integer or out of range")
NOT_A_FLOAT = CommandError("ERR value is not a valid float")
NO_SUCH_KEY = CommandError("ERR no such key")
