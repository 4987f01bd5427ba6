"""The version of Redis whose commands are here, and whether Holdfast is compiled."""

from pathlib import Path

from holdfast.resp import requests

# The commands are those of this version; docs/commands.md lists those that are missing. Clients get
# this version, unless the parameter redis-version names an earlier one.
REDIS_VERSION = "8.10.0"

IS_COMPILED = not requests.__file__.endswith(".py")


def why_not_compiled() -> str:
    """The reason, which setup.py has written into the package."""
    try:
        return (Path(__file__).parents[1] / "not_compiled").read_text().strip()
    except FileNotFoundError:
        return "it runs from its source"
