"""Errors of a move."""

from holdfast.errors import HoldfastError


class MigrationError(HoldfastError):
    """The data cannot move: the source is damaged, or the target cannot take it. The message is one
    sentence. A target that is a file is as it was before; a server that runs may have got some of
    the keys."""


class UnfitError(MigrationError):
    """A part of the source has no place in the target. The caller may leave it out."""
