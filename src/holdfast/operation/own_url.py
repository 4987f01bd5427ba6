"""The URL by which this machine reaches the server of a configuration."""

from urllib.parse import quote

from holdfast.errors import ConfigError
from holdfast.server.config.config import Config

# A server that listens on every address can be reached here.
ANY_ADDRESS = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "::*": "::1"}


def own_url(config: Config, port: int) -> str:
    """The URL, without a password. `port` is the port that the server has or will have. Raises
    ConfigError."""
    if config.unixsocket:
        return f"unix://{quote(config.path(config.unixsocket))}"
    if not port:
        raise ConfigError("the server has no port without TLS: give a URL, such as rediss://host")
    host = config.bind[0].removeprefix("-") if config.bind else "127.0.0.1"
    host = ANY_ADDRESS.get(host, host)
    return f"redis://{f'[{host}]' if ':' in host else host}:{port}"
