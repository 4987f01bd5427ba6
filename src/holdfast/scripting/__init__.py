"""Lua: the sandbox that scripts run in, and the conversion of values into it and out of it.

This room knows nothing of commands, sessions or keys: the host gives it the function behind
`redis.call`.
"""
