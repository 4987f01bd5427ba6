"""Sequences of commands, written as one types them, that both servers must answer alike."""

import shlex
from collections.abc import Iterable

from tests.harness import Pair, encode_command
from tests.harness.rawclient import Argument

Line = str | tuple[Argument, ...]  # a text is split as a shell does it; a tuple is taken as it is


def assert_same(pair: Pair, lines: Iterable[Line], *, in_any_order: bool = False) -> list[bytes]:
    """Send the commands to both in one write; the replies that both must give.

    `in_any_order`: of each reply only the lines must be the same.
    """
    commands = [tuple(shlex.split(line)) if isinstance(line, str) else line for line in lines]
    pair.send(b"".join(encode_command(*command) for command in commands))
    replies = []
    for command in commands:
        if not in_any_order:
            replies.append(pair.same_reply(command))
            continue
        ours, oracle = (client.read_reply() for client in (pair.ours, pair.oracle))
        assert sorted(ours.split(b"\r\n")) == sorted(oracle.split(b"\r\n")), command
        replies.append(oracle)
    return replies
