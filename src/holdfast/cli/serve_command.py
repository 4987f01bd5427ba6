"""`holdfast serve`: reads the configuration and starts the server with it."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli import process
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.cli.arguments import Parser
    from holdfast.server.config.config import Config

# The most important options. All options are in the table of parameters.
_COMMON = (
    ("--port N", "port", "TCP port; 0 picks a free one"),
    ("--bind ADDRESS ...", "bind", "addresses to listen on"),
    ("--db PATH", "db", "the database file, or :memory:"),
    ("--appendfsync WHEN", "appendfsync", "always, everysec or no"),
    ("--unixsocket PATH", "unixsocket", "also listen on this unix socket"),
    ("--requirepass PASSWORD", "requirepass", "clients must AUTH with this password"),
    ("--requirepass-file PATH", "requirepass-file", "... with the password in this file"),
    ("--maxmemory SIZE", "maxmemory", "such as 500mb; 0 is no limit"),
    ("--active-active", "active-active", "share the database with other servers"),
    ("--node-id N", "node-id", "the number of this server, from 1 to 255"),
    ("--peer URL", "peer", "another server: redis://host:port; once for each"),
    (
        "--accept-data-loss",
        "accept-data-loss",
        "start although writes are lost",
    ),
    ("--dir PATH", "dir", "the folder that relative paths start from"),
    ("--loglevel LEVEL", "loglevel", "debug, verbose, notice or warning"),
    ("--dashboard", "dashboard", "also show it in a browser, on --dashboard-port"),
    ("--log-format FORMAT", "log-format", "text or json"),
    ("--supervised MANAGER", "supervised", "tell systemd its state: systemd, auto or no"),
)

_ABOUT = """\
Serve a database file to Redis clients until SIGTERM or SIGINT. A line on
standard output says when the server is ready, and on which port."""
_ABOUT_CONFIG = "read this redis.conf-style file first"
_MORE = """\
Every directive of redis.conf is an option as well, with as many values as it
takes: --save '' --rename-command FLUSHALL '' --slowlog-max-len 1000. Each has
an environment variable, too: HOLDFAST_PORT, HOLDFAST_SLOWLOG_MAX_LEN. Options
overrule the environment, and the environment overrules the file. Directives
that mean nothing here are accepted and named."""
_PATHS = frozenset({"db", "unixsocket", "dir"})
_SWITCHES = frozenset({"--no-backup", *(usage for usage, _, _ in _COMMON if " " not in usage)})


def parser() -> "Parser":
    """A parser with the options of `_COMMON`, for shell completion and the man page. `run` does not
    use it, because each directive of redis.conf is an option, with as many values as it takes."""
    from holdfast.cli.arguments import Parser
    from holdfast.server.config.parameters import BY_NAME
    from holdfast.server.config.value_kinds import Enum

    parser = Parser("serve", _ABOUT)
    parser.epilog = _MORE
    parser.add_argument("--config", metavar="FILE", type=Path, help=_ABOUT_CONFIG)
    for usage, name, meaning in _COMMON:
        option, *values = usage.split()
        if not values:
            parser.add_argument(option, action="store_true", help=meaning)
            continue
        kind, default = BY_NAME[name].kind, _default(name)
        parser.add_argument(
            option,
            metavar=values[0],
            nargs="+" if len(values) > 1 else None,
            type=Path if name in _PATHS else str,
            choices=kind.words.split() if isinstance(kind, Enum) else None,
            help=f"{meaning} [{default}]" if default else meaning,
        )
    return parser


def run(argv: list[str]) -> int:
    if "--help" in argv or argv[:1] == ["-h"]:
        print(_help())
        return 0
    gc.disable()  # imported modules stay, and searching them for garbage takes a tenth of the start
    try:
        config = _config(argv)
        from holdfast.cli.progress import showing_progress
        from holdfast.cli.tables import is_smart_terminal
        from holdfast.daemon import run as run_server

        # The server enables the collector again.
        return run_server(
            config,
            leave=process.leave if process.is_ours else None,
            showing=showing_progress if is_smart_terminal(sys.stderr) else None,
        )
    finally:
        gc.enable()


def _config(argv: list[str]) -> "Config":
    from holdfast.server.config.config import Config

    file, options = _config_file(list(_with_values(argv)))
    if file is None and (named := os.environ.get("HOLDFAST_CONFIG")):
        file = Path(named)
    return Config.from_sources(file, options, os.environ)


def _with_values(argv: list[str]) -> Iterator[str]:
    """The options with their values. A switch without a value means yes."""
    for at, word in enumerate(argv):
        yield word
        if word in _SWITCHES and (at + 1 == len(argv) or argv[at + 1].startswith("--")):
            yield "yes"


def _config_file(argv: list[str]) -> tuple[Path | None, list[str]]:
    """The configuration file and the remaining options.

    As with redis-server, the file may come first, without an option name.
    """
    first_is_file = bool(argv) and not argv[0].startswith("-")
    files = argv[:1] if first_is_file else []
    options: list[str] = []
    words = iter(argv[len(files) :])
    for word in words:
        name, equals, value = word.partition("=")
        if name == "--config":
            files.append(value if equals else next(words, ""))
        else:
            options.append(word)
    if len(files) > 1:
        raise ConfigError("more than one configuration file is given; a file can include others")
    if files and (not files[0] or files[0].startswith("--")):
        raise ConfigError("option '--config': a value is missing")
    return (Path(files[0]) if files else None), options


def _default(name: str) -> str:
    from holdfast.server.config.parameters import BY_NAME

    return BY_NAME[name].default if name != "dir" else ""


def _help() -> str:
    lines = [("--config FILE", _ABOUT_CONFIG)]
    for usage, name, meaning in _COMMON:
        default = _default(name)
        lines.append((usage, f"{meaning} [{default}]" if default else meaning))
    width = max(len(usage) for usage, _ in lines) + 2
    options = "\n".join(f"  {usage:{width}}{meaning}" for usage, meaning in lines)
    return f"""\
usage: holdfast serve [--config FILE] [--NAME VALUE ...] ...

{_ABOUT}

options, with their defaults:
{options}

{_MORE}

examples:
  holdfast serve
  holdfast serve --port 7000 --db /var/lib/app/app.db --requirepass secret
  holdfast serve --config /etc/holdfast.conf --port 7001"""
