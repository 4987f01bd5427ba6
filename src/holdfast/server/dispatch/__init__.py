"""A command of an argv, and the call of its handler: found, called, timed and counted.

Whether a command may run is decided in `core`, the handlers are in `commands`.
"""
