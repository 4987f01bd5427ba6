"""Commands on sorted sets, including those on places (GEO).

The value itself is in `store/values`. Functions that several of these files use are
in `zset_args`.
"""
