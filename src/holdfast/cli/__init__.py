"""The command line. Nothing but the entry points may import it.

Each command has its own module. Commands share `arguments.py`, `json_lines.py`, `progress.py` and
`tables.py`. The last two of these use rich if it is installed.
"""
