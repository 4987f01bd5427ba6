"""`holdfast export`: writes all data of a database file as an RDB file, for Redis or Valkey."""

from pathlib import Path

from holdfast.cli import process
from holdfast.cli.arguments import Parser, readable_file
from holdfast.cli.import_command import add_selection, as_json, counted, print_report, selection
from holdfast.cli.json_lines import print_json
from holdfast.errors import ConfigError, StorageError

FORMATS = ("redis7", "redis8", "valkey9")


def parser() -> Parser:
    parser = Parser(
        "export",
        "Write all data of a database file as an RDB file (dump.rdb), which Redis and\n"
        "Valkey load at their start. It is the state at one moment, also while a server\n"
        "uses the file. Keys that have expired are left out. Of the formats, redis7 is\n"
        "read by all Redis and Valkey since 7.0. Hashes whose fields expire need redis8\n"
        "(for Redis since 7.4) or valkey9.",
    )
    parser.add_argument("target", metavar="FILE.rdb", type=Path, help="the new file")
    parser.add_argument("--db", metavar="FILE", type=Path, required=True, help="the database file")
    add_selection(parser)
    parser.add_argument(
        "--format", choices=FORMATS, default="redis7", help="redis7, redis8 or valkey9 [redis7]"
    )
    parser.add_argument("--replace", action="store_true", help="replace a file of that name")
    parser.add_argument(
        "--skip-unknown", action="store_true", help="leave out what the format does not have"
    )
    parser.add_json()
    return parser


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    target: Path = args.target
    if (scheme := str(target).partition(":/")[0]) in ("redis", "rediss", "redis-cluster", "unix"):
        raise ConfigError(f"{scheme}:// is no target yet: export to a file, such as dump.rdb")
    source = readable_file(args.db)
    if target.is_dir():
        raise StorageError(f"{target} is a folder; name the file in it")
    if target.exists():
        if target.samefile(source):
            raise StorageError(f"{target} is the database file: name another file")
        if not target.is_file():
            raise StorageError(f"{target} is not a regular file")
        if not args.replace:
            raise StorageError(f"{target} exists; --replace replaces it")

    from holdfast.cli.progress import showing_progress
    from holdfast.migration.exporting import ExportOptions, export_file
    from holdfast.store.rdb.file_writer import FORMATS as BY_NAME

    options = ExportOptions(selection(args), BY_NAME[args.format], args.skip_unknown, args.replace)
    with process.ending_in_good_order(), showing_progress() as progress:
        report = export_file(source, target, options, progress)
    nbytes = target.stat().st_size
    if args.json:
        print_json({"db": source, "target": target, "bytes": nbytes, **as_json(report)})
    else:
        print_report(report, f"{source}: {counted(report)} exported to {target} ({nbytes:,} bytes)")
    return 0
