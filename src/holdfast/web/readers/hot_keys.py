"""Hot keys: the counts of HOTKEYS (Holdfast, Redis 8.6), or else the counters of an LFU policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.client import Client
from holdfast.web.readers.asking import ask, ask_one, number, pairs
from holdfast.web.readers.scanning import scan

MOST_COUNTED = 32  # keys of each measure
LOOKED_AT = 2_000  # keys whose counters are read


@dataclass(frozen=True, slots=True)
class HotKeysCount:
    """The counts of HOTKEYS: time in microseconds, and bytes on the network."""

    is_active: bool
    seconds: float
    time_us: int
    net_bytes: int
    by_time: tuple[tuple[bytes, int], ...] = ()
    by_bytes: tuple[tuple[bytes, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Frequencies:
    """The logarithmic counters of keys, highest first."""

    rows: tuple[tuple[bytes, int], ...]
    looked_at: int
    is_all: bool


async def knows_hot_keys(client: Client) -> bool:
    """Whether the server has the command. The user may not be allowed to run it."""
    reply = await ask_one(client, "COMMAND", "INFO", "HOTKEYS")
    return bool(reply) and reply[0] is not None


async def read_count(client: Client) -> HotKeysCount | None:
    """None: nothing was counted, or the user may not run HOTKEYS."""
    reply = await ask_one(client, "HOTKEYS", "GET")
    if not reply:
        return None
    facts = pairs(
        reply[0] if isinstance(reply, list) and isinstance(reply[0], dict | list) else reply
    )

    def whole(name: bytes) -> int:
        return number(facts.get(name)) or 0

    return HotKeysCount(
        is_active=bool(whole(b"tracking-active")),
        seconds=whole(b"collection-duration-ms") / 1000,
        time_us=whole(b"all-commands-all-slots-us"),
        net_bytes=whole(b"net-bytes-all-commands-all-slots"),
        by_time=_ranked(facts.get(b"by-cpu-time-us")),
        by_bytes=_ranked(facts.get(b"by-net-bytes")),
    )


async def begin_count(client: Client, seconds: int) -> None:
    """Let the server count for so long. It is slower by some percent meanwhile."""
    words = ("START", "METRICS", 2, "CPU", "NET", "COUNT", MOST_COUNTED, "DURATION", seconds)
    await client.exec("HOTKEYS", *words, into=None)


async def read_frequencies(client: Client) -> Frequencies | None:
    """The counters of the keys that some SCANs find. None: the server has no such counters."""
    cursor, names = "0", dict[bytes, None]()
    while len(names) < LOOKED_AT:
        step = await scan(client, cursor, "COUNT", 500)
        if step is None:
            return None
        cursor = step.cursor
        is_first = not names
        names.update(dict.fromkeys(step.names))
        if (
            is_first
            and names
            and await ask_one(client, "OBJECT", "FREQ", next(iter(names))) is None
        ):
            return None
        if step.is_last:
            break
    counts = await ask(client, [("OBJECT", "FREQ", name) for name in names])
    rows = [(name, count) for name, count in zip(names, counts, strict=True) if count is not None]
    rows.sort(key=lambda row: (-row[1], row[0]))
    return Frequencies(tuple(rows[:100]), len(names), cursor == "0") if rows else None


def _ranked(reply: Any) -> tuple[tuple[bytes, int], ...]:
    items: Sequence[Any] = reply or ()
    return tuple(zip(items[::2], map(int, items[1::2]), strict=False))
