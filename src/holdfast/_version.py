"""The version of Holdfast. It stands here alone, so that every module may import it."""

__version__ = "0.2.0"
