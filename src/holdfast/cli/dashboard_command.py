"""`holdfast dashboard`: a server in a browser."""

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Parser
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from holdfast.client.transport.options import ConnectOptions
    from holdfast.web.settings import Settings

DEFAULT_PORT = 8380


def parser() -> Parser:
    parser = Parser(
        "dashboard",
        "Show a server in a browser: figures and their history, keys, queues, builds,\n"
        "semaphores, clients, configuration. It works with Redis and Valkey, too. Without\n"
        "URL it asks the server that HOLDFAST_URL names, else the one that 'holdfast\n"
        "serve' would start here, as 'holdfast ping' does.\n"
        "\n"
        "The login in the URL is used for the figures and their history. To open a page,\n"
        "users of the server sign in, unless its default user has no password. The pages\n"
        "offer what the user may do. The dashboard needs holdfast[web].",
    )
    parser.add_argument("url", metavar="URL", nargs="?", help="redis://, rediss:// or unix://")
    parser.add_argument(
        "--port", metavar="N", type=int, default=DEFAULT_PORT, help="0 picks a free one [8380]"
    )
    parser.add_argument(
        "--bind",
        metavar="ADDRESS",
        nargs="+",
        default=["127.0.0.1"],
        help="addresses to listen on [127.0.0.1]; others than loopback need a server with a"
        " password",
    )
    parser.add_argument(
        "--host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name by which browsers reach it, beside its addresses; once for each",
    )
    parser.add_argument(
        "--history",
        metavar="PATH",
        help="the file of the history and the audit trail, or :memory:"
        " [~/.local/state/holdfast/dashboard-NAME.db]",
    )
    parser.add_argument("--tls-cert", metavar="FILE", type=Path, help="serve https with this")
    parser.add_argument("--tls-key", metavar="FILE", type=Path, help="the key of --tls-cert")
    parser.add_argument(
        "--behind-https",
        action="store_true",
        help="a proxy in front speaks https: cookies are for https only",
    )
    return parser


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    if not 0 <= args.port < 65536:
        raise ConfigError("--port is a number from 0 to 65535")
    if (args.tls_cert is None) != (args.tls_key is None):
        raise ConfigError("--tls-cert and --tls-key belong together")
    try:
        from holdfast.web.serving import run as run_dashboard
    except ImportError as error:
        raise ConfigError(
            f"the dashboard needs packages that are not installed ({error.name}):"
            " pip install 'holdfast[web]'"
        ) from None
    settings = _settings(args)
    address = _address(settings.url)

    def announce(url: str) -> None:
        print(f"dashboard of {address} ready on {url}", flush=True)

    return run_dashboard(settings, announce)


def _settings(args: "argparse.Namespace") -> "Settings":
    from holdfast.cli.own_server import server_url
    from holdfast.web.settings import Settings

    options: ConnectOptions = {}
    url = server_url(args.url, options)
    return Settings(
        url=url,
        password=options.get("password"),
        bind=tuple(args.bind),
        port=args.port,
        hosts=tuple(args.host),
        history=_history(args.history, _address(url)),
        certificate=args.tls_cert,
        certificate_key=args.tls_key,
        is_behind_https=args.behind_https,
    )


def _address(url: str) -> str:
    from holdfast.client.transport.options import parse_server_url

    return parse_server_url(url).options.address


def _history(given: str | None, address: str) -> Path | None:
    if given == ":memory:":
        return None
    if given:
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    digest = hashlib.sha256(address.encode()).hexdigest()[:12]
    return Path(base) / "holdfast" / f"dashboard-{digest}.db"
