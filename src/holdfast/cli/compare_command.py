"""`holdfast compare`: names all differences between two contents."""

from contextlib import ExitStack

from holdfast.cli import process
from holdfast.cli.arguments import Parser
from holdfast.cli.import_command import add_selection, selection
from holdfast.cli.json_lines import print_json
from holdfast.errors import ConfigError, HoldfastError

EQUAL, DIFFERENT, CANNOT = 0, 1, 2


def parser() -> Parser:
    parser = Parser(
        "compare",
        "Read two contents and name every difference: keys that one of them lacks, other\n"
        "types, values (and where), expiries, libraries of functions. Each is a database\n"
        "file, an RDB file, a folder of append-only files, or a server (redis://host,\n"
        "redis-cluster://host). Servers are read by SCAN: a key that changes\n"
        "meanwhile is looked at twice. Exits with 0 if both are equal, with 1 if they\n"
        "differ, and with 2 if that cannot be said.",
    )
    parser.add_argument("first", metavar="A", help="app.db, dump.rdb or redis://host")
    parser.add_argument("second", metavar="B", help="the same")
    add_selection(parser)
    parser.add_argument(
        "--tolerance", metavar="MS", type=int, default=1000, help="of expiries, in ms [1000]"
    )
    parser.add_json()
    return parser


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    if args.tolerance < 0:
        raise ConfigError("--tolerance is a number of milliseconds from 0 on")

    from holdfast.cli.progress import showing_progress
    from holdfast.clock import SystemClock
    from holdfast.migration.comparing import CompareOptions, Comparison, Difference, opened

    options = CompareOptions(selection(args), args.tolerance)
    clock = SystemClock()

    def tell(each: Difference) -> None:
        if args.json:
            print_json(
                {
                    "difference": each.kind,
                    "database": each.database,
                    "name": each.name.decode("utf-8", "backslashreplace"),
                    "where": each.where,
                }
            )
        else:
            print(each.sentence(places[0], places[1]))

    count = unread = 0
    try:
        with process.ending_in_good_order(), showing_progress() as progress, ExitStack() as stack:
            sides = [
                stack.enter_context(opened(place, clock, progress))
                for place in (args.first, args.second)
            ]
            places = [side.place for side in sides]
            comparison = Comparison(sides[0], sides[1], options, clock, progress)
            for each in comparison.differences():
                tell(each)
                unread += each.kind == "unread"
                count += each.kind != "unread"
    except (HoldfastError, OSError) as error:
        raise ConfigError(str(error)) from None  # which exits with 2
    if args.json:
        print_json({"keys": comparison.keys, "differences": count, "not_compared": unread})
    else:
        result = (
            "no differences" if not count else f"{count:,} differen{'ce' if count == 1 else 'ces'}"
        )
        more = f", {unread:,} not compared" if unread else ""
        print(f"{places[0]} and {places[1]}: {comparison.keys:,} keys, {result}{more}")
    if count:
        return DIFFERENT
    return CANNOT if unread else EQUAL
