"""The server: engine, sessions, waiting, the end of a turn, and the sockets around them."""
