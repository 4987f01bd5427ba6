"""Errors of a move."""

from holdfast.errors import HoldfastError


class MigrationError(HoldfastError):
    """The data cannot move: the source is damaged, or the target cannot take it. The message is one
    sentence, and the target is as it was before."""


class UnfitError(MigrationError):
    """A part of the source has no place in the target. The caller may leave it out."""
