"""From an argv to its command, and the call of its handler, which is timed and counted.

Whether a command may run is decided in `core`, the handlers are in `commands`.
"""
