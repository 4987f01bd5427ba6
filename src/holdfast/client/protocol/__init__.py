"""Requests, replies and their order, without I/O: bytes in, events out.

No sockets and no clock. `pending` sets futures of asyncio; nothing else here knows it.
"""
