"""`holdfast top`: the current work of a server, as a live screen, as text or as JSON."""

import asyncio
import sys
import time
from io import TextIOWrapper
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Parser
from holdfast.cli.tables import is_smart_terminal
from holdfast.errors import ConfigError, HoldfastError

if TYPE_CHECKING:
    import argparse

    from holdfast.client.transport.options import ConnectOptions
    from holdfast.figures.watch import ServerWatch

SHORTEST_S = 0.1


def parser() -> Parser:
    parser = Parser(
        "top",
        "Show what a server does now: operations, latency, memory, the fold and the WAL,\n"
        "clients, the slowest commands, queues that grow, replication. It works with\n"
        "Redis and Valkey, too. Without URL it asks the server that HOLDFAST_URL names,\n"
        "else the one that 'holdfast serve' would start here, as 'holdfast ping' does.\n"
        "Keys: q quits, s sorts the commands.\n"
        "\n"
        "Without a terminal, one sample is printed as text. The screen needs the\n"
        "package rich: pip install rich.",
    )
    parser.add_argument("url", metavar="URL", nargs="?", help="redis://, rediss:// or unix://")
    parser.add_argument(
        "--interval", metavar="SECONDS", type=float, default=1.0, help="between two samples [1]"
    )
    parser.add_argument("--count", metavar="N", type=int, help="end after N samples")
    parser.add_argument("--once", action="store_true", help="one sample as text, as --count 1")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line for each sample"
    )
    return parser


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    if not SHORTEST_S <= args.interval < float("inf"):
        raise ConfigError(f"--interval is a number of seconds from {SHORTEST_S:g} on")
    if args.count is not None and args.count < 1:
        raise ConfigError("--count is a number from 1 on")
    if args.once and args.count not in (None, 1):
        raise ConfigError("--once and --count contradict each other")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows no µ
    has_screen = not (args.once or args.json) and is_smart_terminal(sys.stdout)
    if has_screen:
        _need_rich()
    count = 1 if args.once or not (has_screen or args.json or args.count) else args.count
    return asyncio.run(_run(args, has_screen, count))


def _need_rich() -> None:
    try:
        import rich as rich
    except ImportError:
        raise ConfigError(
            "the screen of top needs the package rich: pip install rich;"
            " --once and --json do without"
        ) from None


async def _run(args: "argparse.Namespace", has_screen: bool, count: int | None) -> int:
    from holdfast import connect
    from holdfast.cli.own_server import server_url
    from holdfast.client import Backoff
    from holdfast.client.transport.options import parse_server_url
    from holdfast.figures.watch import ServerWatch, plainly

    # A server that comes back should be seen soon.
    options: ConnectOptions = {"client_name": "holdfast-top", "backoff": Backoff(cap_s=1.0)}
    options["close_grace_s"] = 0.0
    url = server_url(args.url, options)
    address = parse_server_url(url).options.address
    client = connect(url, **options)
    try:
        await client.connect()
        watch = ServerWatch(client, address)
        if not has_screen:
            return await _print(watch, args.interval, count, args.json)
        from holdfast.cli.top.live import LiveScreen

        return await LiveScreen(watch, args.interval, count).run()
    except HoldfastError as error:
        raise plainly(error) from None
    finally:
        await client.close()


async def _print(watch: "ServerWatch", interval_s: float, count: int | None, is_json: bool) -> int:
    """Print samples. The first sample is not printed, because rates need two. If the server does
    not answer, wait for it, unless no further sample is due."""
    from holdfast.cli.top.text import as_json, plain
    from holdfast.figures.view import View

    await watch.look()
    printed = 0
    while printed != count:
        await asyncio.sleep(interval_s)
        printed += 1
        try:
            view = await watch.look()
        except HoldfastError as error:
            view = View(watch.address, time.time(), trouble=str(error))
            if printed == count:
                if is_json:
                    print(as_json(view), flush=True)
                raise
        gap = "\n" if printed > 1 and not is_json else ""
        print(gap + (as_json(view) if is_json else plain(view)), flush=True)
    return 0
