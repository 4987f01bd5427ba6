"""`holdfast backup`: copies a database file, also while a server uses it."""

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli import process
from holdfast.cli.arguments import Parser, destination, readable_file
from holdfast.cli.json_lines import print_json

if TYPE_CHECKING:
    from holdfast.store.backup import Backup


def parser() -> Parser:
    parser = Parser(
        "backup",
        "Copy a database file, also while a server uses it. The copy is the state at one\n"
        "moment, complete and ready to be served. Its tables and views have everything,\n"
        "also changes that only the journal of the file had. A file of an older version\n"
        "is copied as it is. Nothing is ever overwritten.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the database file")
    parser.add_argument(
        "dest", metavar="DEST", type=destination, help="the new file, or a folder to put it into"
    )
    parser.add_argument(
        "--raw", action="store_true", help="leave journal and tables as they are: faster"
    )
    parser.add_json()
    return parser


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    source = readable_file(args.file)
    dest: Path = args.dest / source.name if args.dest.is_dir() else args.dest

    from holdfast.cli.progress import showing_progress
    from holdfast.store.backup import backup

    notes: list[str] = []
    with process.ending_in_good_order(), showing_progress() as progress:
        made = backup(source, dest, folds=not args.raw, progress=progress, note=notes.append)
    nbytes = dest.stat().st_size
    notes += _why_not_folded(made, is_asked=args.raw)
    if args.json:
        print_json(
            {
                "source": source,
                "backup": dest,
                "bytes": nbytes,
                "schema_version": made.schema_version,
                "folded": made.is_folded,
                "notes": notes,
            }
        )
        return 0
    for note in notes:
        print(f"{dest}: note: {note}")
    print(f"{source} copied to {dest} ({nbytes:,} bytes)")
    return 0


def _why_not_folded(made: "Backup", *, is_asked: bool) -> list[str]:
    if made.is_folded:
        return []
    why = "as asked" if is_asked else f"because it has the older version {made.schema_version}"
    return [f"it is not folded, {why}: its views may lack the newest changes"]
