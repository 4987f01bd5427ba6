"""`holdfast ping`: checks whether a server answers. A health check for containers and scripts."""

import asyncio
import time
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Parser
from holdfast.cli.json_lines import print_json
from holdfast.cli.own_server import server_url
from holdfast.errors import ConfigError, HoldfastError, UnavailableError

if TYPE_CHECKING:
    from holdfast.client.transport.options import ConnectOptions


def parser() -> Parser:
    parser = Parser(
        "ping",
        "Send PING to a server. Exits with 0 if the answer PONG comes in time, and with\n"
        "1 after one sentence if it does not. Without URL it asks the server that\n"
        "HOLDFAST_URL names, else the one that 'holdfast serve' would start here: it\n"
        "uses HOLDFAST_PORT, HOLDFAST_BIND, HOLDFAST_UNIXSOCKET, HOLDFAST_REQUIREPASS\n"
        "and HOLDFAST_REQUIREPASS_FILE.",
    )
    parser.add_argument("url", metavar="URL", nargs="?", help="redis://, rediss:// or unix://")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=5.0, help="how long to wait [5]"
    )
    parser.add_json()
    return parser


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    if not 0 < args.timeout < float("inf"):
        raise ConfigError("--timeout is a number of seconds above 0")
    options: ConnectOptions = {"reconnect": False, "close_grace_s": 0.0}
    url = server_url(args.url, options)
    took_s = asyncio.run(_ping(url, args.timeout, options))
    if args.json:
        print_json({"reply": "PONG", "ms": round(took_s * 1000, 3)})
    else:
        print("PONG")
    return 0


async def _ping(url: str, timeout_s: float, options: "ConnectOptions") -> float:
    """Returns the time of the answer in seconds, without the time to connect."""
    from holdfast import connect

    try:
        async with asyncio.timeout(timeout_s):
            async with connect(url, **options) as client:
                began_s = time.monotonic()
                reply = await client.ping()
                took_s = time.monotonic() - began_s
    except HoldfastError as error:
        if "NOAUTH" in str(error):
            raise UnavailableError("no PONG: the server wants a password") from None
        raise UnavailableError(f"no PONG: {error}") from None
    except TimeoutError:
        raise UnavailableError(f"no PONG within {timeout_s:g} s") from None
    if reply not in (b"PONG", "PONG"):
        raise UnavailableError(f"not PONG but {reply!r:.100}")
    return took_s
