"""The command line. Nothing but the entry points may import it.

A command has a module of its own. What commands share: `arguments.py`, `json_lines.py`,
`progress.py` and `tables.py`. Of these, the last two import rich, if it is there.
"""
