"""Lua scripts and function libraries as the server runs them. The Lua itself is in `scripting`."""
