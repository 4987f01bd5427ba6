"""Which Redis clients are told they talk to, and what they talk to."""

from holdfast.resp import requests

REDIS_VERSION = "7.2.0"

# Whether setup.py found a compiler.
IS_COMPILED = not requests.__file__.endswith(".py")
