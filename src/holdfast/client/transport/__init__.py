"""One connection: its socket, its states, its options, and how silence on it is noticed.

Which connection a request uses is decided in `topology`.
"""
