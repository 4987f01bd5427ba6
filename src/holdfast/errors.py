"""Every exception Holdfast raises on purpose. Imports nothing."""

LONGEST_CODE = 30


class HoldfastError(Exception):
    """The root: `except HoldfastError` catches whatever Holdfast means to say."""


class CommandError(HoldfastError):
    """An error reply. `message` is the whole line, code first, without `-` and CRLF. It is one line
    whatever it was made of: as in Redis, line ends are blanks inside of it, and nothing at its end.

    Many are constants, raised again and again. Python adds each raise to the traceback that an
    error has already, and the frames in it keep their arguments: who catches one drops that.

    `is_counted`: INFO errorstats has it already, because it is that of a command that a script
    has called.
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
        """By INFO errorstats. What scripts say without a space near its beginning is an ERR there,
        as in Redis."""
        end = self.message.find(b" ", 0, LONGEST_CODE + 1)
        return self.message[:end] if end >= 0 else b"ERR"


class ProtocolError(HoldfastError):
    """The peer sent bytes that are not RESP; the stream cannot be trusted any more."""


class ConfigError(HoldfastError):
    """A configuration file, option or value is wrong; the sentence says which and why."""


class StorageError(HoldfastError):
    """The database file cannot be opened, read or written."""


class StoreInUseError(StorageError):
    """Another process (or another engine in this one) has the file open."""


class StoreBusyError(StorageError):
    """Another program is writing to the file. Nothing was written; it can be tried again."""


class HalfDoneError(HoldfastError):
    """A handler has a bug, or a peer sent what cannot be taken in, and something was changed before
    that was known."""


INTERNAL = CommandError("ERR internal error, see the server's log")
OUT_OF_MEMORY = CommandError("OOM command not allowed when used memory > 'maxmemory'.")
WRONG_TYPE = CommandError("WRONGTYPE Operation against a key holding the wrong kind of value")
SYNTAX = CommandError("ERR syntax error")
NOT_AN_INTEGER = CommandError("ERR value is not an integer or out of range")
NOT_A_FLOAT = CommandError("ERR value is not a valid float")
NO_SUCH_KEY = CommandError("ERR no such key")
