"""One client without its socket: its session, and the output that is sent to it."""
