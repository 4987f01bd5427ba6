"""Scripts for several clients, played at both servers: each client must read the same bytes.

A line is `name: command`; a client connects when it is first named. A line is played when the one
before was answered. `#name` is replaced by that client's id. Messages may come at any time between
replies, so the comparison covers everything that a client reads, in order, from first to last.
"""

import re
import shlex

from tests.harness import RawClient
from tests.wire.stage import Actor, Stage, masked

_IS_MESSAGE = re.compile(
    rb"[>*]\d\r\n\$\d+\r\n(p?message|smessage|invalidate|tracking-redir-broken)\r\n"
).match
_REDIRECTION = re.compile(rb"(redirect\r\n|redir-broken\r\n):[1-9]\d*|(redir=)[1-9]\d*")


class Player:
    """One client of the script at one of the servers."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.id = 0
        self.heard: list[bytes] = []

    def act(self, args: list[str]) -> None:
        self.client.send_command(*args)
        while _IS_MESSAGE(self._hear()):
            pass

    def finish(self) -> None:
        """Read the messages that are still on their way."""
        self.client.send_command("PING", "the end")
        while b"the end" not in self._hear():
            pass

    def _hear(self) -> bytes:
        reply = self.client.read_reply()
        self.heard.append(_REDIRECTION.sub(rb"\1\2:#", masked(reply)))
        return reply


def play(
    stage: Stage,
    *script: str,
    protocols: dict[str, int] | None = None,
    leaves: tuple[str, ...] = (),
) -> dict[str, bytes]:
    """The bytes that each client read, equal at both servers. A client that leaves is not there at
    the end."""
    casts: list[dict[str, Player]] = [{}, {}]
    for line in script:
        name, _, command = line.partition(": ")
        if name not in casts[0]:
            actor: Actor = stage.enter(protocol=(protocols or {}).get(name))
            ids = actor.ids()
            for cast, client, client_id in zip(casts, (actor.ours, actor.oracle), ids, strict=True):
                cast[name] = Player(client)
                cast[name].id = client_id
        for cast in casts:
            cast[name].act(
                [
                    str(cast[word[1:]].id) if word[:1] == "#" else word
                    for word in shlex.split(command)
                ]
            )
    ours, oracle = casts
    for name in ours:
        if name not in leaves:
            ours[name].finish()
            oracle[name].finish()
        assert ours[name].heard == oracle[name].heard, f"what {name} reads"
    return {name: b"".join(player.heard) for name, player in oracle.items()}
