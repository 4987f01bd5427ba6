"""`holdfast check`: looks for damage in a database file."""

from pathlib import Path

from holdfast.cli.arguments import Parser, readable_file
from holdfast.cli.json_lines import print_json


def parser() -> Parser:
    parser = Parser(
        "check",
        "Look for damage in a database file: whether all is there that a killed server\n"
        "had acknowledged, SQLite's own integrity, and whether the journal and the tables\n"
        "agree. Changes nothing, and works in a read-only folder. Prints one problem a\n"
        "line and exits with 1 if there are any. Notes name parts that were not checked.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the database file")
    parser.add_json()
    return parser


def run(argv: list[str]) -> int:
    args = parser().parse_args(argv)
    file = readable_file(args.file)

    from holdfast.cli.progress import showing_progress
    from holdfast.store.check import check

    with showing_progress() as progress:
        problems, notes = check(file, progress)
    if args.json:
        print_json({"file": file, "ok": not problems, "problems": problems, "notes": notes})
        return 1 if problems else 0
    for problem in problems:
        print(f"{file}: {problem}")
    for note in notes:
        print(f"{file}: note: {note}")
    if not problems:
        print(f"{file}: no problems found")
    return 1 if problems else 0
