"""The memory of the dashboard, in an SQLite file of its own: samples of the figures, in buckets
that become coarser with age, and the trail of changes. `rollup` is pure and bounds the size.

Nothing here asks the server or knows HTTP.
"""
