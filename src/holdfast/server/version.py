"""The version of Redis that clients are told, and the version of Holdfast."""

from importlib import resources

from holdfast.resp import requests

REDIS_VERSION = "7.2.0"

IS_COMPILED = not requests.__file__.endswith(".py")


def why_not_compiled() -> str:
    """The reason that setup.py has left in the package."""
    try:
        return resources.files("holdfast").joinpath("not_compiled").read_text().strip()
    except FileNotFoundError:
        return "it runs from its source"
