"""Commands on streams and their consumer groups.

The value itself is in `store/values`. Functions that several of these files use are
in `stream_args`.
"""
