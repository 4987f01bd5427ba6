"""`holdfast backup`: copies a database file, also while it is being served."""

import sys
from pathlib import Path

from holdfast.cli.arguments import Parser, readable_file
from holdfast.errors import StorageError


def parser() -> Parser:
    parser = Parser(
        "backup",
        "Copy a database file, also while a server uses it. The copy is the state at one\n"
        "moment, complete and ready to be served. Nothing is ever overwritten.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the database file")
    parser.add_argument(
        "dest", metavar="DEST", type=Path, help="the new file, or a folder to put it into"
    )
    return parser


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    source = readable_file(args.file)
    dest: Path = args.dest / source.name if args.dest.is_dir() else args.dest
    if dest.exists():
        raise StorageError(f"{dest} exists; a backup does not overwrite anything")
    if not dest.parent.is_dir():
        raise StorageError(f"cannot write {dest}: there is no folder {dest.parent}")

    from holdfast.store.file.backup import backup

    progress = _show if sys.stderr.isatty() else None
    backup(source, dest, progress)
    if progress:
        print(file=sys.stderr)
    print(f"{source} copied to {dest} ({dest.stat().st_size:,} bytes)")
    return 0


def _show(done: int, total: int) -> None:
    percent = 100 * done // total if total else 100
    print(f"\r{percent:3d} %", end="", file=sys.stderr, flush=True)
