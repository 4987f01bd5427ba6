"""`holdfast check`: says whether a database file is sound."""

from pathlib import Path

from holdfast.cli.command import Command, Parser, readable_file


def run(argv: list[str]) -> int:
    parser = Parser(
        "check",
        "Look for damage in a database file: SQLite's own integrity, and whether the\n"
        "journal and the tables agree. Changes nothing. Prints one problem a line and\n"
        "exits with 1 if there are any.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the database file")
    file = readable_file(parser.parse_args(argv).file)

    from holdfast.store.check import check_file

    problems = check_file(file)
    for problem in problems:
        print(f"{file}: {problem}")
    if not problems:
        print(f"{file}: no problems found")
    return 1 if problems else 0


CHECK = Command("check", "look for damage in a database file", run)
