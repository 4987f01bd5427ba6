"""`holdfast export`: writes all data of a database file as an RDB file, or into a server."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.cli import process
from holdfast.cli.arguments import Parser, destination, readable_file
from holdfast.cli.import_command import add_selection, as_json, counted, print_report, selection
from holdfast.cli.json_lines import print_json
from holdfast.errors import ConfigError, StorageError

FORMATS = ("redis7", "redis8", "valkey9")


def parser() -> Parser:
    parser = Parser(
        "export",
        "Write all data of a database file for Redis or Valkey: as an RDB file, which\n"
        "they load at their start, or into a server that runs (redis://host:6379,\n"
        "redis-cluster://host:6379). It is the state at one moment, also while a server\n"
        "uses the file. Keys that have expired are left out. The source may be a server,\n"
        "too: it is imported first, as by 'holdfast import', into a temporary file.\n"
        "\n"
        "Of the formats of files, redis7 is read by all Redis and Valkey since 7.0. \n"
        "Hashes whose fields expire need redis8 (for Redis since 7.4) or valkey9.\n"
        "\n"
        "A server keeps its other keys. It must not have other keys of the same names,\n"
        "unless --replace is given. If the export is interrupted, the same\n"
        "command goes on.",
    )
    parser.add_argument(
        "target", metavar="TARGET", help="the new file, or redis://host, redis-cluster://host"
    )
    parser.add_argument(
        "--db", metavar="SOURCE", required=True, help="the database file, or redis://host"
    )
    add_selection(parser)
    parser.add_argument(
        "--format", choices=FORMATS, help="of a file: redis7, redis8 or valkey9 [redis7]"
    )
    parser.add_argument(
        "--replace", action="store_true", help="replace a file, or keys, of that name"
    )
    parser.add_argument(
        "--skip-unknown", action="store_true", help="leave out what the target does not take"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="write nothing, and name all that would not fit"
    )
    parser.add_json()
    return parser


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    from holdfast.migration.live_server import is_url

    if is_url(args.target):
        export = _to_server
        _check_server(args)
    else:
        export = _to_file
        _check_file(args)
    if not is_url(args.db):
        return export(args, readable_file(Path(args.db)), args.db)
    return _from_server(args, export)


def _from_server(args: argparse.Namespace, export: Callable[..., int]) -> int:
    from tempfile import TemporaryDirectory

    from holdfast.cli.progress import showing_progress
    from holdfast.migration.importing import ImportOptions
    from holdfast.migration.importing_live import import_server
    from holdfast.migration.live_server import LiveServer
    from holdfast.server.config.parameters import MOST_DATABASES

    place = LiveServer(args.db)
    with process.ending_in_good_order(), TemporaryDirectory(prefix="holdfast-export-") as folder:
        source = Path(folder, "source.db")
        with place as server, showing_progress() as progress:
            options = ImportOptions(databases=MOST_DATABASES - 1, skips_unknown=args.skip_unknown)
            report = import_server(server, source, options, progress=progress)
        for sentence in (*report.sentences, *report.notes):
            print(f"holdfast: {sentence}", file=sys.stderr)
        return export(args, source, server.address)


def _to_server(args: argparse.Namespace, source: Path, name: str) -> int:
    from holdfast.cli.progress import showing_progress
    from holdfast.migration.exporting import ExportOptions, export_to_server
    from holdfast.migration.live_server import LiveServer

    place = LiveServer(args.target)
    options = ExportOptions(
        selection(args),
        skips_unknown=args.skip_unknown,
        replaces=args.replace,
        dry_run=args.dry_run,
    )
    with (
        process.ending_in_good_order(),
        place as server,
        showing_progress() as progress,
    ):
        report = export_to_server(source, server, options, progress)
    if args.json:
        target = {"db": name, "target": server.address, "dry_run": args.dry_run}
        print_json({**target, **as_json(report)})
    else:
        verb = "would go to" if args.dry_run else "exported to"
        print_report(report, f"{name}: {counted(report)} {verb} {server.address}")
    return 1 if args.dry_run and report.unfit and not args.skip_unknown else 0


def _check_server(args: argparse.Namespace) -> None:
    """Refuse mistakes in the command line before anything is read."""
    from holdfast.migration.live_server import LiveServer

    if args.format is not None:
        raise ConfigError("--format is for files: a server takes what it can read")
    LiveServer(args.target)


def _check_file(args: argparse.Namespace) -> None:
    """Refuse an impossible target file before anything is read."""
    if args.dry_run:
        raise ConfigError("--dry-run is for servers: a file takes all that --format has")
    target = destination(args.target)
    if target.is_dir():
        raise StorageError(f"{target} is a folder; name the file in it")
    if target.exists():
        if Path(args.db).exists() and target.samefile(args.db):
            raise StorageError(f"{target} is the database file: name another file")
        if not target.is_file():
            raise StorageError(f"{target} is not a regular file")
        if not args.replace:
            raise StorageError(f"{target} exists; --replace replaces it")


def _to_file(args: argparse.Namespace, source: Path, name: str) -> int:
    target = destination(args.target)
    from holdfast.cli.progress import showing_progress
    from holdfast.migration.exporting import ExportOptions, export_file
    from holdfast.store.rdb.file_writer import FORMATS as BY_NAME

    rdb_format = BY_NAME[args.format or "redis7"]
    options = ExportOptions(selection(args), rdb_format, args.skip_unknown, args.replace)
    with process.ending_in_good_order(), showing_progress() as progress:
        report = export_file(source, target, options, progress)
    nbytes = target.stat().st_size
    if args.json:
        print_json({"db": name, "target": target, "bytes": nbytes, **as_json(report)})
    else:
        print_report(report, f"{name}: {counted(report)} exported to {target} ({nbytes:,} bytes)")
    return 0
