"""The dashboard: a web application that reaches a server only through our client.

`application` puts the rooms together, `routes` lists every page and action. `security` has
sessions, permissions and tokens; `live` the one poller and its subscribers; `history` the files
that outlive a restart; `readers` what a page shows, as values; `pages` one file for each page.
It works on Redis and Valkey, too: it imports nothing of the server, except the table of parameters
for their defaults (`config_defaults`).
"""
