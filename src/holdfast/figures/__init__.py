"""The figures of a server, for `holdfast top` and the dashboard: watch asks the server through our
client, sample reads its replies, view compares two samples. Only watch does I/O.

Nothing here prints or makes HTML: `cli/top` and `web` show the figures.
"""
