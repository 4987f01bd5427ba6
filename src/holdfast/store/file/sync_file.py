"""Syncs the file of a connection in the way that SQLite does.

A descriptor of our own would be simpler, but to close it would drop SQLite's locks on the file.
"""

import apsw

SYNC_DATA = 0x12  # SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY


def sync_file(connection: apsw.Connection) -> None:
    """Wait until all that was written to the main file is on the disk. Raises OSError. Does nothing
    where Python has no ctypes: SQLite syncs the file all the same before it empties a WAL."""
    try:
        import ctypes  # on a thread, and not at the start: it takes two milliseconds
    except ImportError:
        return

    class Methods(ctypes.Structure):
        """The methods that SQLite has for a file: the first of them."""

        _fields_ = (
            ("version", ctypes.c_int),
            ("close", ctypes.c_void_p),
            ("read", ctypes.c_void_p),
            ("write", ctypes.c_void_p),
            ("truncate", ctypes.c_void_p),
            ("sync", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)),
        )

    file = ctypes.c_void_p()
    pointer = ctypes.addressof(file)
    if not connection.file_control("main", apsw.SQLITE_FCNTL_FILE_POINTER, pointer):
        return
    methods = ctypes.cast(file, ctypes.POINTER(ctypes.POINTER(Methods))).contents
    try:
        result = methods.contents.sync(file, SYNC_DATA)
    except SystemError as error:  # of a VFS that is written in Python
        raise OSError(f"SQLite's VFS: {error.__cause__}") from error
    if result != apsw.SQLITE_OK:
        raise OSError(f"SQLite's error {result}")
