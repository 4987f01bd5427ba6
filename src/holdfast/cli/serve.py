"""`holdfast serve`: reads the configuration and hands it to the server."""

import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.command import Command
from holdfast.errors import ConfigError

# The options a person looks for first; all others are in the table of parameters as well.
_COMMON = (
    ("--port N", "port", "TCP port; 0 picks a free one"),
    ("--bind ADDRESS ...", "bind", "addresses to listen on"),
    ("--db PATH", "db", "the database file, or :memory:"),
    ("--appendfsync WHEN", "appendfsync", "always, everysec or no"),
    ("--unixsocket PATH", "unixsocket", "also listen on this unix socket"),
    ("--requirepass PASSWORD", "requirepass", "clients must AUTH with this password"),
    ("--maxmemory SIZE", "maxmemory", "such as 500mb; 0 is no limit"),
    ("--active-active", "active-active", "share the database with other servers"),
    ("--node-id N", "node-id", "which of them this one is, from 1 to 255"),
    ("--peer URL", "peer", "where another one is: redis://host:port; once for each"),
    (
        "--accept-data-loss",
        "accept-data-loss",
        "start although writes are lost",
    ),
    ("--dir PATH", "dir", "the folder that relative paths start from"),
    ("--loglevel LEVEL", "loglevel", "debug, verbose, notice or warning"),
)

_SWITCHES = frozenset(usage for usage, _, _ in _COMMON if " " not in usage)


def run(argv: list[str]) -> int:
    if "--help" in argv or argv[:1] == ["-h"]:
        print(_help())
        return 0
    from holdfast.server.config import Config

    file, options = _config_file(list(_with_values(argv)))
    config = Config.from_sources(file, options)
    ignored = config.without_effect()
    if ignored:
        print(
            f"holdfast: these settings have no effect here: {', '.join(ignored)}", file=sys.stderr
        )

    from holdfast.server.main import run as run_server

    return run_server(config)


def _with_values(argv: list[str]) -> Iterator[str]:
    """A switch alone means yes."""
    for at, word in enumerate(argv):
        yield word
        if word in _SWITCHES and (at + 1 == len(argv) or argv[at + 1].startswith("--")):
            yield "yes"


def _config_file(argv: list[str]) -> tuple[Path | None, list[str]]:
    """The configuration file, which may come first without a name as for redis-server, and
    the options that are left."""
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


def _help() -> str:
    from holdfast.server.config_table import BY_NAME

    lines = [("--config FILE", "read this redis.conf-style file first")]
    for usage, name, meaning in _COMMON:
        default = BY_NAME[name].default
        shown = f" [{default}]" if default and name != "dir" else ""
        lines.append((usage, meaning + shown))
    width = max(len(usage) for usage, _ in lines) + 2
    options = "\n".join(f"  {usage:{width}}{meaning}" for usage, meaning in lines)
    return f"""\
usage: holdfast serve [--config FILE] [--NAME VALUE ...] ...

Serve a database file to Redis clients until SIGTERM or SIGINT. A line on
standard output says when the server is ready, and on which port.

options, with their defaults:
{options}

Every directive of redis.conf is an option as well, with as many values as it
takes: --save '' --rename-command FLUSHALL '' --slowlog-max-len 1000. Options
overrule the file. Directives that mean nothing here are accepted and named.

examples:
  holdfast serve
  holdfast serve --port 7000 --db /var/lib/app/app.db --requirepass secret
  holdfast serve --config /etc/holdfast.conf --port 7001"""


SERVE = Command("serve", "serve a database file to Redis clients", run)
