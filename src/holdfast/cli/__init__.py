"""The command line. Only the entry points may import it.

Each command has its own module. Commands share `arguments.py`, `json_lines.py`, `progress.py` and
`tables.py`. The last two use rich if it is installed.
"""
