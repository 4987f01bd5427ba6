"""Lua scripts and function libraries as the server runs them. The Lua itself is in `scripting`.

EVAL, FUNCTION and SCRIPT, which call this room, are in server/commands.
"""
