"""`holdfast import`: takes all data of a Redis or Valkey into a database file."""

import argparse
import gc
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli import process
from holdfast.cli.arguments import Parser
from holdfast.cli.json_lines import print_json
from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.migration.report import Report
    from holdfast.migration.selection import Selection

MOST_SHOWN = 20  # sentences; --json has more


def parser() -> Parser:
    parser = Parser(
        "import",
        "Take all data of a Redis or Valkey into a database file: from an RDB file\n"
        "(dump.rdb), from append-only files (the folder appendonlydir, or one file), or\n"
        "from a server that runs (redis://host:6379). No server may use the database\n"
        "file meanwhile. The data is there at once when all of it is; if the import fails\n"
        "or is interrupted, the file is as it was. Keys that have expired are left out.\n"
        "\n"
        "A server is followed as a replica would (PSYNC), until the file has all that\n"
        "the server had; with --follow, until SIGINT or SIGTERM. An import that was\n"
        "interrupted goes on. Servers that refuse PSYNC are read by SCAN: then keys that\n"
        "change meanwhile are read again, and the import says what it cannot promise.",
    )
    parser.add_argument(
        "source", metavar="SOURCE", help="dump.rdb, appendonlydir or redis://host:6379"
    )
    parser.add_argument(
        "--db", metavar="FILE", type=Path, required=True, help="the database file; it may be new"
    )
    add_selection(parser)
    parser.add_argument(
        "--databases", metavar="N", type=int, default=16, help="how many the file has [16]"
    )
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument(
        "--merge", action="store_true", help="keep the keys of the file that the source lacks"
    )
    existing.add_argument("--replace", action="store_true", help="remove all keys of the file")
    parser.add_argument(
        "--skip-unknown", action="store_true", help="leave out what Holdfast does not have"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="write nothing, and name all that would not fit"
    )
    parser.add_argument(
        "--via", choices=("auto", "psync", "scan"), help="how to read a server [auto]"
    )
    parser.add_argument(
        "--follow", action="store_true", help="go on with a server until SIGINT or SIGTERM"
    )
    parser.add_json()
    return parser


def add_selection(parser: argparse.ArgumentParser) -> None:
    """The options that `import` and `export` share."""
    parser.add_argument(
        "--match",
        metavar="PATTERN",
        action="append",
        default=[],
        help="only keys that match, as for SCAN; once for each pattern",
    )
    parser.add_argument(
        "--db-map",
        metavar="FROM:TO",
        action="append",
        default=[],
        help="give a database another number; once for each",
    )


def selection(args: argparse.Namespace) -> "Selection":
    from holdfast.migration.selection import Selection

    databases: dict[int, int] = {}
    for word in args.db_map:
        if re.fullmatch(r"[0-9]{1,9}:[0-9]{1,9}", word) is None:
            raise ConfigError(f"--db-map takes two numbers, such as 1:0, not '{word}'")
        origin, database = map(int, word.split(":"))
        if origin in databases:
            raise ConfigError(f"--db-map names database {origin} twice")
        databases[origin] = database
    return Selection([os.fsencode(pattern) for pattern in args.match], databases)


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    from holdfast.server.config.parameters import MOST_DATABASES

    if not 1 <= args.databases <= MOST_DATABASES:
        raise ConfigError(f"--databases is a number from 1 to {MOST_DATABASES:,}")
    if str(args.db) == ":memory:":
        raise ConfigError("--db takes a file: data in :memory: would be lost at once")
    from holdfast.cli.progress import showing_progress
    from holdfast.migration.importing import ImportOptions, import_file
    from holdfast.migration.importing_live import import_server
    from holdfast.migration.live_server import LiveServer, is_url

    server = LiveServer(args.source) if is_url(args.source) else None
    if server is None and (args.via or args.follow):
        raise ConfigError("--via and --follow are for servers, such as redis://host:6379")
    if args.follow and (args.dry_run or args.via == "scan"):
        raise ConfigError("--follow needs PSYNC: it goes without --dry-run and --via scan")
    place = args.source if server is None else server.address
    options = ImportOptions(
        selection(args),
        args.databases,
        args.skip_unknown,
        args.merge,
        args.replace,
        args.dry_run,
    )
    gc.disable()  # records are no garbage, and searching them takes a fifth of the time
    try:
        with process.ending_in_good_order(), showing_progress() as progress:
            if server is None:
                report = import_file(Path(args.source), args.db, options, progress)
            else:
                with server:
                    report = import_server(
                        server,
                        args.db,
                        options,
                        via=args.via or "auto",
                        follows=args.follow,
                        progress=progress,
                    )
    except KeyboardInterrupt:
        if server is not None:
            print(
                f"holdfast: interrupted: {args.db} is as it was, and the same command goes on",
                file=sys.stderr,
            )
        raise
    finally:
        gc.enable()
    if args.json:
        print_json({"source": place, "db": args.db, "dry_run": args.dry_run, **as_json(report)})
    else:
        verb = "would go into" if args.dry_run else "imported into"
        print_report(report, f"{place}: {counted(report)} {verb} {args.db}")
    return 1 if args.dry_run and report.unfit and not args.skip_unknown else 0


def as_json(report: "Report") -> dict[str, object]:
    return {
        "keys": report.key_count,
        "types": dict(sorted(report.keys.items())),
        "databases": sorted(report.databases),
        "libraries": report.libraries,
        "expired": report.expired,
        "unmatched": report.unmatched,
        "present": report.present,
        "left_out": report.unfit,
        "problems": report.sentences,
        "notes": report.notes,
    }


def print_report(report: "Report", result: str) -> None:
    for sentence in report.sentences[:MOST_SHOWN]:
        print(f"left out: {sentence}")
    if report.unfit > MOST_SHOWN:
        print(f"left out: {report.unfit - MOST_SHOWN:,} more")
    for note in report.notes:
        print(f"note: {note}")
    print(result)
    for count, what in (
        (report.expired, "had expired"),
        (report.unmatched, "did not match"),
        (report.present, "were there already"),
        (report.unfit, "did not fit"),
    ):
        if count:
            print(f"{count:,} {what}")


def counted(report: "Report") -> str:
    """Such as `1,000 keys (900 strings, 100 hashes) and 1 library`."""
    types = ", ".join(f"{count:,} {name}" for name, count in report.keys.most_common())
    text = f"{report.key_count:,} key{'s' * (report.key_count != 1)}"
    if types:
        text += f" ({types})"
    if report.libraries:
        text += f" and {report.libraries} librar{'y' if report.libraries == 1 else 'ies'}"
    return text
