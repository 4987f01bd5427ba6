"""Steps of SCAN. A name can be as long as a value, and SCAN sends the whole name."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from weakref import WeakSet

from holdfast.client import Client, ReplyTooLargeError
from holdfast.web.readers.asking import Argument, ask_one
from holdfast.web.readers.pace import COUNT, Pace

MOST_NAME_BYTES = 16 * 1024  # a longer name does not fit into the address of a page

# ARGV: bytes of the longest name, then the words of SCAN. Returns the cursor, the names up to that
# length, and the number of longer names.
_SHORT_NAMES = """
local most = tonumber(table.remove(ARGV, 1))
local step = redis.call('SCAN', unpack(ARGV))
local names, left_out = {}, 0
for _, name in ipairs(step[2]) do
  if #name > most then left_out = left_out + 1 else names[#names + 1] = name end
end
return {step[1], names, left_out}
"""
# Servers with a name that is too long for our client: a script on the server leaves such names out.
_WITH_HUGE_NAMES: WeakSet[Client] = WeakSet()


class Step(NamedTuple):
    cursor: str  # "0": the search is over
    names: list[bytes]
    left_out: int  # names that are too long

    @property
    def is_last(self) -> bool:
        return self.cursor == "0"


async def scan(client: Client, cursor: str, *words: Argument) -> Step | None:
    """One step of SCAN, without names that are too long. None if the user may not scan."""
    reply: Any = None
    if client not in _WITH_HUGE_NAMES:
        try:
            reply = await ask_one(client, "SCAN", cursor, *words)
        except ReplyTooLargeError:
            _WITH_HUGE_NAMES.add(client)
    if client in _WITH_HUGE_NAMES:
        script = _SHORT_NAMES, 0, MOST_NAME_BYTES, cursor, *words
        for command in ("EVAL_RO", "EVAL"):  # Redis before 7 knows only the second one
            reply = reply or await ask_one(client, command, *script)
    if reply is None:
        return None
    names = [name for name in reply[1] if len(name) <= MOST_NAME_BYTES]
    left_out = len(reply[1]) - len(names) + (reply[2] if len(reply) > 2 else 0)
    return Step(bytes(reply[0]).decode(), names, left_out)


class Sweep:
    """Reads all keys, again and again, some of them in each call. `words`: MATCH and TYPE."""

    def __init__(self, *words: Argument) -> None:
        self._words = words
        self._cursor = "0"
        self._rounds = 0

    async def go_on(self, client: Client, pace: Pace) -> AsyncIterator[bytes]:
        """The names that the next steps find. A call never goes beyond the end of a round."""
        for _ in range(pace.calls_in(self._rounds)):
            step = await scan(client, self._cursor, *self._words, "COUNT", COUNT)
            if step is None:
                return
            self._cursor = step.cursor
            for name in step.names:
                yield name
            if step.is_last:
                self._rounds += 1
                return
