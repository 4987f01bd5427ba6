"""One client without its socket: its session, and the output that is sent to it.

Nothing here knows the engine: sessions use its base class, `SessionHost`.
"""
