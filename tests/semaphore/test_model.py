"""Thousands of interleavings of clients that come, go, pause and die, against a model of them.

Their limits may differ, and one of them may resize the semaphore, or undo that.

The scripts run on our engine in-process, with the time of the model. The model knows only as
much as the clients: the replies that each got, and their times.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

import holdfast
from holdfast.coordination.backend import Backend
from holdfast.coordination.backend_of import backend_of
from holdfast.coordination.lua_scripts import load
from holdfast.semaphore.names import Names
from holdfast.semaphore.waiter import SlotWaiter

HEARTBEAT_S = 10.0
NAMES = Names("model", "s")


@dataclass
class Client:
    """One acquisition, from its first call to its end."""

    id: str
    ttl_s: float | None
    renewed_s: float
    limit: int | None  # as it was made
    is_exact: bool  # a lock
    came: int = 0  # in which order it was queued
    held_since_s: float | None = None
    waiter: SlotWaiter = field(default_factory=SlotWaiter)

    def is_alive(self, now_s: float) -> bool:
        """The conclusion of the server: its lease has not run out."""
        overdue = (
            self.held_since_s is not None
            and self.ttl_s is not None
            and now_s >= self.held_since_s + self.ttl_s
        )
        return now_s < self.renewed_s + HEARTBEAT_S and not overdue


class Simulation:
    def __init__(self, commands: Backend, rng: random.Random, limit: int) -> None:
        self.commands = commands
        self.rng = rng
        self.limit = limit  # that counts
        self.is_known = False  # whether the server has one
        self.is_resized = False
        self.was_resized = False
        self.most = limit  # that ever counted
        self.slots: dict[str, float] = {}  # at the last look
        self.refused = 0
        self.now_s = 1_800_000_000.0
        self.count = 0
        self.waiting: dict[str, Client] = {}
        self.holding: dict[str, Client] = {}
        self.tokens: set[int] = set()
        self.believed = 0
        self.heard = 0  # in the reply to a release
        self.spoke_s: dict[str, float] = {}  # when each client last spoke itself
        self.seeded: set[str] = set()  # let in by the seed's script, which begins a new lease

    async def run(self, name: str, **args: Any) -> Any:
        script = load("holdfast.semaphore", name)
        values = {
            "limit": self.limit,
            "heartbeat_max_interval": HEARTBEAT_S,
            "ttl": "",
            "now": self.now_s,
            "mailbox": "",
            "is_exact": "",
            "acquisition_notification_key_pattern": NAMES.pattern,
            **args,
        }
        wanted = {name: values[name] for name in script.args}
        return await self.commands.run(script, NAMES.of(script), wanted)

    # -- actions of clients -------------------------------------------------------------------

    async def step(self) -> None:
        steps = [self.come, self.ask, self.hear, self.leave, self.tend, self.die, self.pause]
        (action,) = self.rng.choices([*steps, self.resize], [9, 2, 12, 6, 5, 1, 3, 0.4])
        await action()
        await self.check()

    async def resize(self) -> None:
        """For all clients, and until it is taken back."""
        limit = self.rng.choice([None, 1, 2, 3, 5])
        self.slots = await self.members("main")  # these may be more than the new limit
        await self.run("resize", limit="" if limit is None else limit)
        self.is_resized = limit is not None
        self.was_resized = True
        self.is_known = self.is_known or self.is_resized
        self.limit = limit or self.limit
        self.most = max(self.most, self.limit)

    def any_limit(self) -> int | str:
        """Of a process that speaks for clients: the server's counts."""
        some: list[int | str] = [self.limit, 4, ""]
        return self.rng.choice(some) if self.was_resized else self.limit

    def some_limit(self) -> int | None:
        """Of a client of a fleet. Until a resize all of them are made with the same."""
        return self.rng.choice([self.limit, None, 1, 4] if self.was_resized else [self.limit, None])

    async def wake_up_nexts(self) -> None:
        """As the seed does it."""
        await self.run("wake_up_nexts")  # with the limit that counts
        self.seeded |= (await self.members("main")).keys()

    async def come(self) -> None:
        self.count += 1
        id = (
            f"{self.rng.choice('pqr')}/{self.count}" if self.rng.random() < 0.7 else f"{self.count}"
        )
        ttl_s, limit = self.rng.choice([None, None, 4.0, 15.0]), self.some_limit()
        is_exact = limit == 1 and self.rng.random() < 0.5
        client = Client(id, ttl_s, self.now_s, limit, is_exact, self.count)
        self.waiting[id] = client
        self.spoke_s[id] = self.now_s
        if self.is_known and self.rng.random() < 0.2:  # as the seed does it, which sets no limit
            await self.run("queue", acquisition_id=id)
        else:
            await self.enter(client)

    async def ask(self) -> None:
        """A waiter asks again, just so."""
        if self.waiting:
            await self.enter(self.rng.choice(list(self.waiting.values())))

    async def enter(self, client: Client) -> None:
        place = await self.place(client.id)
        self.spoke_s[client.id] = self.now_s
        ttl = "" if client.ttl_s is None else client.ttl_s
        limit = "" if client.limit is None else client.limit
        exact = "1" if client.is_exact else ""
        is_used = await self.is_used()
        is_new = place is None and client.id not in await self.members("main")
        answer = await self.run(
            "enter", acquisition_id=client.id, ttl=ttl, limit=limit, is_exact=exact
        )
        if isinstance(answer, int):
            answer = [1, 1, answer] if answer > 0 else [0, self.limit, -answer]
        if answer[0] == -1:
            self.check_refusal(client, answer[1], is_used)
            return
        self.is_known = True
        if client.limit not in (None, self.limit) and is_new:
            assert not (client.is_exact and self.is_resized), "a lock follows a resize"
        if client.limit not in (None, self.limit) and is_new and not self.is_resized:
            assert not is_used, "the limit is another while it is in use"
            self.limit = client.limit
            self.most = max(self.most, self.limit)
        state, number, token = answer
        assert state == 1 or is_used, "a client waits for the dead"
        if state == 1:
            assert token > max(self.tokens, default=0)
            self.grant(client, number, token)
        else:
            assert (state, number) == (0, self.limit)
            client.waiter.still_waits(token, self.now_s)
            if await self.place(client.id) != place:
                assert place is None or not client.is_alive(self.now_s), "a place was lost"
                self.count += 1
                client.came = self.count
        client.renewed_s = self.now_s

    def check_refusal(self, client: Client, limit: int, is_used: bool) -> None:
        """A client with another limit, where that is not to follow a resize; or with none, where
        the server has none."""
        self.refused += 1
        del self.waiting[client.id]
        if client.limit is None:
            assert limit == 0
            assert not self.is_known
        else:
            assert limit == self.limit != client.limit
            assert client.is_exact or not self.is_resized, "a resize does not count for a client"
            assert is_used or self.is_resized

    async def is_used(self) -> bool:
        """Whether a client holds or waits that the server believes alive."""
        slots, places = await self.members("main"), await self.members("waiting_heartbeat")
        overdue = await self.members("ttl")
        alive = [id for id, at_s in slots.items() if overdue.get(id, at_s) > self.now_s < at_s]
        return bool(alive) or any(at_s > self.now_s for at_s in places.values())

    async def hear(self) -> None:
        """A process looks into a mailbox, sooner or later."""
        told = [id.partition("/")[0] for id in await self.members("main") if id in self.waiting]
        box = self.rng.choice(told or ["p", "q"])
        message = await self.commands.call("LPOP", NAMES.mailbox(box))
        if message:
            await self.read(message)

    async def read(self, message: bytes) -> None:
        words = message.decode().split(" ")
        client = self.waiting.get(words[0])
        if client is None:
            return
        if client.ttl_s is None:
            client.waiter.believe(words, HEARTBEAT_S, self.now_s)
        acquisition = client.waiter.acquisition
        if acquisition is None:
            await self.enter(client)
        else:
            self.believed += 1
            client.renewed_s = acquisition.renewed_s
            self.grant(client, acquisition.slot_number, acquisition.fencing_token)

    def grant(self, client: Client, number: int, token: int) -> None:
        del self.waiting[client.id]
        client.held_since_s = self.now_s
        self.holding[client.id] = client
        assert 1 <= number <= self.most
        assert token not in self.tokens
        if self.most == 1:  # else two may learn of their grants in another order
            assert token > max(self.tokens, default=0)
        self.tokens.add(token)

    async def leave(self) -> None:
        leaving = self.holding if self.rng.random() < 0.7 else self.waiting
        if leaving:
            client = self.rng.choice(list(leaving.values()))
            held = self.holding.pop(client.id, None)
            self.waiting.pop(client.id, None)
            if self.rng.random() < 0.2:  # no waiter is told
                removed = await self.run("release", acquisition_id=client.id)
                await self.wake_up_nexts()
            else:
                removed = await self.run_leave(client.id)
            if held is not None and held.is_alive(self.now_s):
                assert removed == 1, "a live holder had lost its slot"

    async def run_leave(self, id: str) -> int:
        """By a process that may have other waiters, and may miss messages for them."""
        box = self.rng.choice(["p", "q", "r", ""])
        reply = await self.run("leave", acquisition_id=id, mailbox=box, limit=self.any_limit())
        removed, *messages = reply if isinstance(reply, list) else [reply]
        for message in messages:
            assert message.decode().startswith(f"{box}/")
            if self.rng.random() < 0.8:
                self.heard += 1
                await self.read(message)
        return int(removed)

    async def tend(self) -> None:
        """One process speaks for some of the clients."""
        everybody = list({**self.waiting, **self.holding}.values())
        some = [client for client in everybody if self.rng.random() < 0.7]
        if some and self.rng.random() < 0.2:  # as the seed does it
            self.spoke_s[some[0].id] = self.now_s
            await self.learn(some[0], *await self.run("ping", acquisition_id=some[0].id))
            await self.wake_up_nexts()
            return
        ids = [client.id for client in some]
        self.spoke_s |= dict.fromkeys(ids, self.now_s)
        _, token, *states = await self.run("tend", acquisition_ids=ids, limit=self.any_limit())
        for client, state in zip(some, states, strict=True):
            await self.learn(client, int(state == 1), int(state == 2))
            if state == 1:
                client.waiter.still_waits(token, self.now_s)

    async def learn(self, client: Client, waits: int, holds: int) -> None:
        alive = client.is_alive(self.now_s)
        if client.id in self.holding:
            assert holds or not alive, "a live holder had lost its slot"
            if holds:
                client.renewed_s = self.now_s
            else:
                del self.holding[client.id]
        elif waits or holds:
            client.renewed_s = self.now_s
        # else its place is gone, and it asks again some time

    async def die(self) -> None:
        """Without a word."""
        everybody = [*self.waiting, *self.holding]
        if everybody:
            id = self.rng.choice(everybody)
            self.waiting.pop(id, None)
            self.holding.pop(id, None)

    async def pause(self) -> None:
        """Time passes: mostly little, sometimes more than every lease."""
        self.now_s += self.rng.choice([0.0, 0.001, 0.1, 0.1, 1.0, 1.0, 1.0, 3.0, 6.0, 11.0])

    # -- the rules ----------------------------------------------------------------------------

    async def place(self, id: str) -> float | None:
        score = await self.commands.call("ZSCORE", NAMES.keys["waiting"], id)
        return None if score is None else float(score)

    async def members(self, key: str) -> dict[str, float]:
        pairs = await self.commands.call("ZRANGE", NAMES.keys[key], 0, -1, "WITHSCORES")
        return {member.decode(): float(score) for member, score in pairs}

    async def check(self) -> None:
        for id in [id for id, client in self.holding.items() if not client.is_alive(self.now_s)]:
            del self.holding[id]  # it knows by its own clock
        main, queue, beats = await asyncio.gather(
            *(self.members(key) for key in ("main", "waiting", "waiting_heartbeat"))
        )
        if main.keys() - self.slots.keys():  # else there may be too many since a resize
            assert len(main) <= self.limit, "more slots are given than there are"
        self.slots = main
        for id in main.keys() - self.seeded:
            late_s = main[id] - self.spoke_s[id] - HEARTBEAT_S
            assert late_s < 1e-5, "a slot is kept for longer than its client may be silent"
        assert set(self.holding) <= set(main), "a live holder has no slot"
        assert set(beats) == set(queue)
        order = [id for id in queue if id in self.waiting and beats[id] > self.now_s]
        assert order == sorted(order, key=lambda id: self.waiting[id].came), (
            "not first come, first served"
        )
        for id in order:  # no later waiter was let in before
            came = self.waiting[id].came
            for other in main:
                given = self.waiting.get(other)
                assert given is None or given.came < came or main[other] <= self.now_s

    async def check_no_slot_is_idle(self) -> None:
        """After one call, by any client, no slot is free while a client waits."""
        await self.run("tend", acquisition_ids=[])
        if await self.members("waiting"):
            assert len(await self.members("main")) >= self.limit


async def simulate(rng: random.Random, limit: int, runs: int) -> None:
    async with holdfast.connect("memory://") as client:
        grants = believed = heard = done = 0
        while done < runs or not (believed and heard):  # else it shows nothing
            assert done < 10 * runs
            await client.flushdb()
            simulation = Simulation(backend_of(client), rng, limit)
            for n in range(150):
                await simulation.step()
                if n % 10 == 0:
                    await simulation.check_no_slot_is_idle()
            grants += len(simulation.tokens)
            believed += simulation.believed
            heard += simulation.heard
            done += 1
        assert grants > done


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_clients_in_every_order(rng: random.Random, limit: int) -> None:
    asyncio.run(simulate(rng, limit, 8))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_clients_in_every_order_for_minutes(rng: random.Random) -> None:
    for limit in (1, 2, 3, 4, 5, 8):
        asyncio.run(simulate(rng, limit, 100))
