"""The command line. Nothing but the entry points may import it."""
