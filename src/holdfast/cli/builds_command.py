"""`holdfast builds`: looks at a build queue, and stops or repeats builds in it."""

import asyncio
import time
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Parser
from holdfast.cli.json_lines import print_json
from holdfast.cli.own_server import server_url
from holdfast.cli.tables import CHOICES, look_of_stdout
from holdfast.errors import ConfigError, HoldfastError

if TYPE_CHECKING:
    import argparse

    from holdfast.builds import BuildQueue, BuildRecord, State
    from holdfast.cli.builds_view import BuildsView
    from holdfast.client.transport.options import ConnectOptions

ACTIONS = {
    "list": "builds, the newest first",
    "show": "everything that is known about a build",
    "events": "the events of a build, the oldest first",
    "replay": "a build as its events give it; exits with 1 if its record differs",
    "abort": "end a build now; exits with 1 if it cannot be ended",
    "retry": "begin another attempt; enqueue an ended build as a new one",
    "stats": "the numbers of the queue",
    "demo": "run thirty builds of eight jobs in this process",
}
OF_A_BUILD = ("show", "events", "replay", "abort", "retry")
LIVE_S = 0.5


def parser() -> Parser:
    width = max(map(len, ACTIONS)) + 2
    lines = "\n".join(f"  {name:{width}}{what}" for name, what in ACTIONS.items())
    parser = Parser("builds", f"Look at a build queue, and stop or repeat builds in it.\n\n{lines}")
    parser.add_argument("action", metavar="ACTION", choices=list(ACTIONS), help="see above")
    parser.add_argument("build", metavar="ID", nargs="?", type=int, help="a build")
    parser.add_argument("--url", help="where the queue is [$HOLDFAST_URL, or as holdfast ping]")
    parser.add_argument("--queue", default="builds", metavar="NAME", help="its name")
    parser.add_argument(
        "--state", type=_state, help="list: only builds in this state, such as RUNNING"
    )
    parser.add_argument("--job", help="list: only builds of this job")
    parser.add_argument("--limit", type=int, default=50, help="list: how many at most")
    parser.add_argument("--live", action="store_true", help="list: update until ^C")
    parser.add_argument("--speed", type=float, default=1.0, help="demo: 2 is twice as fast")
    parser.add_argument("--color", choices=CHOICES, default="auto")
    parser.add_json()
    return parser


def _state(word: str) -> "State":
    from holdfast.builds import State

    try:
        return State[word.upper()]
    except KeyError:
        known = ", ".join(state.name for state in State)
        raise ArgumentTypeError(f"{word!r} is no state; the states are {known}") from None


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    if (args.build is None) is (args.action in OF_A_BUILD):
        wanted = "the id of a build" if args.build is None else "no build"
        raise ConfigError(f"{args.action} takes {wanted} (see 'holdfast builds --help')")
    if args.json and (args.live or args.action == "demo"):
        raise ConfigError(f"--json is not for {'--live' if args.live else 'demo'}")

    from holdfast.cli.builds_view import BuildsView

    view = BuildsView(look_of_stdout(args.color))
    if args.action == "demo":
        from holdfast.cli.builds_demo import demo

        if not args.speed > 0:
            raise ConfigError("--speed is a number above 0")
        return asyncio.run(demo(view, args.speed))
    return asyncio.run(_act(args, view))


async def _act(args: "argparse.Namespace", view: "BuildsView") -> int:
    from holdfast import connect
    from holdfast.builds import BuildQueue

    options: ConnectOptions = {}
    url = server_url(args.url, options, option="--url", is_one_server=False)
    async with connect(url, **options) as client:
        queue = BuildQueue(client, args.queue)
        if args.action == "list":
            await _list(queue, args, view)
        elif args.action == "stats":
            stats = await queue.stats()
            if args.json:
                by_state = {state.name: count for state, count in stats.by_state.items()}
                fields = {**vars(stats), "by_state": by_state, "unfinished": stats.unfinished}
                print_json(fields)
            else:
                print(view.stats(stats))
        elif args.action == "show":
            _print_record(await _known(queue, args.build), args, view)
        elif args.action == "events":
            await _known(queue, args.build)
            events = await queue.events(args.build)
            if args.json:
                for event in events:
                    print_json(event)
            else:
                print(view.events(events))
        elif args.action == "replay":
            return await _replay(queue, args, view)
        elif args.action == "abort":
            return await _abort(queue, args)
        else:
            return await _retry(queue, args)
    return 0


def _print_record(record: "BuildRecord", args: "argparse.Namespace", view: "BuildsView") -> None:
    if args.json:
        print_json(record)
    else:
        print(view.record(record))


async def _replay(queue: "BuildQueue", args: "argparse.Namespace", view: "BuildsView") -> int:
    record, replayed = await _known(queue, args.build), await queue.replay(args.build)
    is_same = record == replayed
    if args.json:
        print_json(
            {"build_id": args.build, "is_same": is_same, "record": record, "replayed": replayed}
        )
    elif is_same:
        _print_record(record, args, view)
    else:
        print("the record differs from its events")
    return 0 if is_same else 1


async def _retry(queue: "BuildQueue", args: "argparse.Namespace") -> int:
    retried = await queue.retry(args.build)
    if args.json:
        print_json(retried)
    else:
        print(f"build {retried.build_id}: {retried.status} {retried.message}".rstrip())
    return 1 if retried.status == "REFUSED" else 0


async def _abort(queue: "BuildQueue", args: "argparse.Namespace") -> int:
    """0 if the build is aborted now, else 1."""
    from holdfast.builds.queue import ABORT_MARK_MS

    stopped = await queue.abort(args.build)
    if stopped.state is None:
        raise HoldfastError(
            f"there is no build {args.build} in the queue '{queue.name}'; if it comes within"
            f" {ABORT_MARK_MS // 60_000} minutes, it is aborted then"
        )
    is_aborted = stopped.state.name == "ABORTED"
    if args.json:
        print_json({"build_id": args.build, **vars(stopped)})
    else:
        how = "" if is_aborted else f" it had ended as {stopped.state.name}"
        print(f"build {args.build}: {stopped.status}{how}")
    return 0 if is_aborted else 1


async def _known(queue: "BuildQueue", build: int) -> "BuildRecord":
    record = await queue.get(build)
    if record is None:
        raise HoldfastError(f"there is no build {build} in the queue '{queue.name}'")
    return record


async def _list(queue: "BuildQueue", args: "argparse.Namespace", view: "BuildsView") -> None:
    while True:
        records = await queue.list(state=args.state, job=args.job, limit=args.limit)
        if args.json:
            for record in records:
                print_json(record)
            return
        text = view.table(records, time.time_ns() // 1_000_000)
        if not args.live:
            print(text)
            return
        print(view.screen(f"{text}\n\n{view.stats(await queue.stats())}"), flush=True)
        await asyncio.sleep(LIVE_S)
