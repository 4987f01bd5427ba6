"""The server for a subcommand: the one that the user names, or else the one that `holdfast serve`
would start here.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.client.transport.options import ConnectOptions


def server_url(
    given: str | None,
    options: "ConnectOptions",
    *,
    option: str = "",
    is_one_server: bool = True,
) -> str:
    """The URL of the command line, or HOLDFAST_URL, or that of the own server, whose password goes
    to the options. `option` is the name of the URL on the command line, if it has one. Raises
    ConfigError, also if the URL must be that of one server and is that of a cluster, for
    example."""
    from holdfast.client.transport.options import parse_server_url, parse_url

    if given is not None:
        url, source = given, option
    elif named := os.environ.get("HOLDFAST_URL"):
        url, source = named, "HOLDFAST_URL"
    else:
        return own_server(options)
    try:
        (parse_server_url if is_one_server else parse_url)(url)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}" if source else str(error)) from None
    return url


def own_server(options: "ConnectOptions") -> str:
    """The URL of the server that this environment configures. Its password goes to the options."""
    from holdfast.operation.own_url import own_url
    from holdfast.server.config.config import Config

    file = os.environ.get("HOLDFAST_CONFIG")
    config = Config.from_sources(Path(file) if file else None, (), os.environ)
    if config.requirepass:
        try:
            options["password"] = config.requirepass.decode()
        except UnicodeDecodeError:
            raise ConfigError("the password of the server is not UTF-8: give a URL") from None
    return own_url(config, config.port)
