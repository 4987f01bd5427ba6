"""The dashboard: a web application that reaches a server only through our client.

`application` puts the rooms together, `routes` lists each page and action. `security` has sessions,
permissions and tokens; `live` the one poller and its subscribers; `history` the files that outlive
a restart; `readers` the values that pages show; `pages` one file for each page. It works on Redis
and Valkey, too: it imports nothing from the server, except the table of parameters for their
defaults (`config_defaults`).
"""
