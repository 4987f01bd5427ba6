"""The pure list beside Loro and pycrdt, in one run and one process.

It measures pushes at the right, pops at the left, and the merge of two replicas that were edited
independently.

Everything is in memory, nothing is durable, values have 16 bytes. Times are CPU times of one
operation, the best of the rounds. Each contender does one operation at a time, as a server runs one
command at a time; ours also makes the effect for the other replicas. pycrdt pops and edits only a
part, because each of its operations takes longer than the one before.
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from typing import Any, Protocol

import loro
import pycrdt

from bench.common import machine, say
from holdfast.crdt.dots import Author
from holdfast.crdt.effects import Effect
from holdfast.crdt.replicated_list import ReplicatedList

COUNT, EDITS, ROUNDS = 100_000, 20_000, 3
INSERTS, DELETES = 0.7, 0.2  # shares of the edits; the rest set values
PYCRDT_SHARE = 0.05
AIMS = {"loro": 4.0, "pycrdt": 1.0}  # our time divided by theirs, at most

Edit = tuple[str, float, bytes]  # operation, position (0 to 1 of the length), value


class Contender(Protocol):
    """A list of one library, on one replica."""

    def __init__(self, replica: int) -> None: ...
    def push(self, value: bytes) -> None: ...
    def pop(self) -> None: ...
    def __len__(self) -> int: ...
    def insert(self, at: int, value: bytes) -> None: ...
    def delete(self, at: int) -> None: ...
    def set(self, at: int, value: bytes) -> None: ...
    def news(self) -> Any:
        """The changes that the other replica does not have yet."""
        ...

    def merge(self, news: Any) -> None: ...
    def values(self) -> list[bytes]: ...


class Holdfast:
    def __init__(self, replica: int) -> None:
        self.list = ReplicatedList()
        self.author = Author(replica, time.time_ns() >> 4, {})
        self.unsent: list[Effect] = []

    def _do(self, effect: Effect) -> None:
        self.list.integrate(effect)
        self.unsent.append(effect)

    def push(self, value: bytes) -> None:
        self._do(self.list.push_right((value,), self.author))

    def pop(self) -> None:
        self._do(self.list.pop_left())

    def __len__(self) -> int:
        return len(self.list)

    def insert(self, at: int, value: bytes) -> None:
        self._do(self.list.insert(at, value, self.author))

    def delete(self, at: int) -> None:
        self._do(self.list.delete([at]))

    def set(self, at: int, value: bytes) -> None:
        effect = self.list.set(at, value, self.author)
        assert effect is not None
        self._do(effect)

    def news(self) -> list[Effect]:
        news, self.unsent = self.unsent, []
        return news

    def merge(self, news: list[Effect]) -> None:
        for effect in news:
            self.list.integrate(effect)

    def values(self) -> list[bytes]:
        return self.list.view()


class Loro:
    def __init__(self, replica: int) -> None:
        # The stubs of loro leave the constructor untyped.
        self.doc = loro.LoroDoc()  # type: ignore[no-untyped-call]  # its stub has no types here
        self.doc.peer_id = replica
        self.list = self.doc.get_list("list")
        self.sent = self.doc.oplog_vv

    def push(self, value: bytes) -> None:
        self.list.push(value)

    def pop(self) -> None:
        self.list.delete(0, 1)

    def __len__(self) -> int:
        return len(self.list)

    def insert(self, at: int, value: bytes) -> None:
        self.list.insert(at, value)

    def delete(self, at: int) -> None:
        self.list.delete(at, 1)

    def set(self, at: int, value: bytes) -> None:
        self.list.delete(at, 1)
        self.list.insert(at, value)

    def news(self) -> bytes:
        self.doc.commit()
        news = self.doc.export(loro.ExportMode.Updates(self.sent))
        self.sent = self.doc.oplog_vv
        return news

    def merge(self, news: bytes) -> None:
        self.doc.import_(news)

    def values(self) -> list[bytes]:
        values: Any = self.list.get_value()
        return list(map(bytes, values))


class Pycrdt:
    def __init__(self, replica: int) -> None:
        self.doc: pycrdt.Doc[Any] = pycrdt.Doc(client_id=replica)
        self.list: pycrdt.Array[Any] = self.doc.get("list", type=pycrdt.Array)
        self.sent = self.doc.get_state()

    def push(self, value: bytes) -> None:
        self.list.append(value)

    def pop(self) -> None:
        del self.list[0]

    def __len__(self) -> int:
        return len(self.list)

    def insert(self, at: int, value: bytes) -> None:
        self.list.insert(at, value)

    def delete(self, at: int) -> None:
        del self.list[at]

    def set(self, at: int, value: bytes) -> None:
        self.list[at] = value

    def news(self) -> bytes:
        news = self.doc.get_update(self.sent)
        self.sent = self.doc.get_state()
        return news

    def merge(self, news: bytes) -> None:
        self.doc.apply_update(news)

    def values(self) -> list[bytes]:
        return list(self.list)


CONTENDERS: dict[str, type[Contender]] = {"holdfast": Holdfast, "loro": Loro, "pycrdt": Pycrdt}


def cpu_s(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def queue(contender: type[Contender], values: list[bytes], pops: int) -> dict[str, float]:
    """Microseconds per push and per pop."""
    subject = contender(1)

    def push() -> None:
        for value in values:
            subject.push(value)

    def pop() -> None:
        for _ in range(pops):
            subject.pop()

    pushed = cpu_s(push)
    popped = cpu_s(pop)
    assert subject.values() == values[pops:]
    return {"push_us": pushed / len(values) * 1e6, "pop_us": popped / pops * 1e6}


def merge(contender: type[Contender], start: list[bytes], edits: list[list[Edit]]) -> float:
    """Microseconds per edit until two replicas, edited independently, are equal."""
    one, two = contender(1), contender(2)
    for value in start:
        one.push(value)
    two.merge(one.news())
    two.news()
    for replica, own in zip((one, two), edits, strict=True):
        for what, where, value in own:
            at = int(where * len(replica))
            if what == "insert":
                replica.insert(at, value)
            elif what == "delete":
                replica.delete(at)
            else:
                replica.set(at, value)
    ours, theirs = one.news(), two.news()

    def exchange() -> None:
        one.merge(theirs)
        two.merge(ours)

    seconds = cpu_s(exchange)
    assert one.values() == two.values()
    return seconds / sum(map(len, edits)) * 1e6


def random_edits(rng: random.Random, count: int) -> list[Edit]:
    kinds = rng.choices(
        ["insert", "delete", "set"], [INSERTS, DELETES, 1 - INSERTS - DELETES], k=count
    )
    return [(kind, rng.random(), rng.randbytes(16)) for kind in kinds]


def measure(count: int, edits: int, rounds: int) -> dict[str, dict[str, float]]:
    rng = random.Random(1)
    values = [rng.randbytes(16) for _ in range(count)]
    apart = [random_edits(rng, edits) for _ in range(2)]
    best: dict[str, dict[str, float]] = {}
    for round_ in range(rounds):
        for name, contender in CONTENDERS.items():
            say(f"round {round_ + 1}: {name}")
            share = PYCRDT_SHARE if contender is Pycrdt else 1
            own = [side[: int(edits * share)] for side in apart]
            figures = queue(contender, values, int(count * share))
            figures["merge_us"] = merge(contender, values[:edits], own)
            old = best.setdefault(name, figures)
            best[name] = {key: min(old[key], figure) for key, figure in figures.items()}
    return best


def show(best: dict[str, dict[str, float]]) -> None:
    keys = ("push_us", "pop_us", "merge_us")
    print(f"the pure list, µs of CPU {'push':>9} {'pop':>9} {'merge':>9}")
    for name, figures in best.items():
        print(f"{name:24}", *(f"{figures[key]:9.2f}" for key in keys))
    for name, aim in AIMS.items():
        shares = [best["holdfast"][key] / best[name][key] for key in keys]
        marks = [f"{share:8.2f}{'!' if share > aim else ' '}" for share in shares]
        print(f"{f'ours : {name} (aim {aim:g})':24}", *marks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="pushes, and pops")
    parser.add_argument("--edits", type=int, default=EDITS, help="on each replica before a merge")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    best = measure(args.count, args.edits, args.rounds)
    if args.json:
        print(json.dumps({"machine": machine(), "crdt": best}, indent=2))
        return
    show(best)


if __name__ == "__main__":
    main()
