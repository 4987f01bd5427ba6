"""Shared by the semaphore and the build queue: Lua scripts with includes, run by any client.

It loads and checks scripts and adapts our client, redis-py and valkey-py. It knows no key names.
"""
