"""Commands on streams and their consumer groups."""
