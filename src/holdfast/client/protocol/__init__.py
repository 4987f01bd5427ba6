"""Requests, replies and their order, without I/O: bytes in, events out."""
