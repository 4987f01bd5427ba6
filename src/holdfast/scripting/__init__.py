"""Lua: the sandbox that scripts run in, and the way of values into it and out of it.

Knows nothing of commands, sessions or keys: whoever runs scripts hands in what `redis.call` does.
"""
