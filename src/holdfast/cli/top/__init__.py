"""The parts of `holdfast top`, from the server to the screen: watch, sample and queues, view, then
text or screen, and live. Only watch talks to a server and only live to a terminal.

cli/top_command.py is the subcommand. Nothing else may import these.
"""
