"""`holdfast check`: says whether a database file is sound."""

from pathlib import Path

from holdfast.cli.arguments import Parser, readable_file


def parser() -> Parser:
    parser = Parser(
        "check",
        "Look for damage in a database file: whether all is there that a killed server\n"
        "had acknowledged, SQLite's own integrity, and whether the journal and the tables\n"
        "agree. Changes nothing. Prints one problem a line and exits with 1 if there are\n"
        "any.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the database file")
    return parser


def run(argv: list[str]) -> int:
    file = readable_file(parser().parse_args(argv).file)

    from holdfast.store.check import check_file
    from holdfast.store.file.opening import dropped_by_next_start

    problems = check_file(file)
    for problem in problems:
        print(f"{file}: {problem}")
    if not problems and (count := dropped_by_next_start(file)):
        print(f"{file}: note: the next start drops {count} frames of a write that was cut off")
    if not problems:
        print(f"{file}: no problems found")
    return 1 if problems else 0
