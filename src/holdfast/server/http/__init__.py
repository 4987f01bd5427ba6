"""HTTP for operators: `/metrics`, `/health` and `/ready`, on a port of their own.

It reads numbers that the server counts anyway, and changes nothing. Without `http-port` nothing
here is imported.
"""
