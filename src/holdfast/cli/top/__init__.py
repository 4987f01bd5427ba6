"""The parts of `holdfast top` behind the room figures: text or screen, and live. Only live uses a
terminal.

cli/top_command.py is the subcommand. Nothing else may import these.
"""
