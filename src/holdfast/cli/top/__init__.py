"""The screens of `holdfast top`: as text, and live on a terminal. Only `live` uses a terminal.

cli/top_command.py is the subcommand. Only it may import this package. The figures come from the
room `figures`.
"""
