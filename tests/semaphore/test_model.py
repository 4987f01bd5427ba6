"""Thousands of interleavings of clients that come, go, pause and die, against a model of them.

The scripts run on our engine in-process; the time they are told is the model's. The model knows
only what the clients know: what each was answered, and when.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

import holdfast
from holdfast.client.backends import Commands, commands_of
from holdfast.client.lua import load
from holdfast.semaphore.names import Names
from holdfast.semaphore.waiter import Waiter

HEARTBEAT_S = 10.0
NAMES = Names("model", "s")


@dataclass
class Client:
    """One acquisition, from its first call to its end."""

    id: str
    ttl_s: float | None
    renewed_s: float
    came: int = 0  # in which order it was queued
    held_since_s: float | None = None
    waiter: Waiter = field(default_factory=Waiter)

    def is_alive(self, now_s: float) -> bool:
        """What a server may conclude: its lease has not run out."""
        overdue = (
            self.held_since_s is not None
            and self.ttl_s is not None
            and now_s >= self.held_since_s + self.ttl_s
        )
        return now_s < self.renewed_s + HEARTBEAT_S and not overdue


class Simulation:
    def __init__(self, commands: Commands, rng: random.Random, limit: int) -> None:
        self.commands = commands
        self.rng = rng
        self.limit = limit
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

    # -- what clients do ----------------------------------------------------------------------

    async def step(self) -> None:
        action = self.rng.choices(
            [self.come, self.ask, self.hear, self.leave, self.tend, self.die, self.pause],
            [9, 2, 12, 6, 5, 1, 3],
        )[0]
        await action()
        await self.check()

    async def wake_up_nexts(self) -> None:
        """As the seed does it."""
        await self.run("wake_up_nexts")
        self.seeded |= (await self.members("main")).keys()

    async def come(self) -> None:
        self.count += 1
        id = (
            f"{self.rng.choice('pqr')}/{self.count}" if self.rng.random() < 0.7 else f"{self.count}"
        )
        client = Client(id, self.rng.choice([None, None, 4.0, 15.0]), self.now_s, self.count)
        self.waiting[id] = client
        self.spoke_s[id] = self.now_s
        if self.rng.random() < 0.2:  # as the seed does it
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
        answer = await self.run("enter", acquisition_id=client.id, ttl=ttl)
        if isinstance(answer, int):
            answer = [1, 1, answer] if answer > 0 else [0, self.limit, -answer]
        state, number, token = answer
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
        assert 1 <= number <= self.limit
        assert token not in self.tokens
        if self.limit == 1:  # else two may learn of their grants in another order
            assert token > max(self.tokens, default=0)
        self.tokens.add(token)

    async def leave(self) -> None:
        leaving = self.holding if self.rng.random() < 0.7 else self.waiting
        if leaving:
            client = self.rng.choice(list(leaving.values()))
            held = self.holding.pop(client.id, None)
            self.waiting.pop(client.id, None)
            if self.rng.random() < 0.2:  # as the seed does it: nobody is told
                removed = await self.run("release", acquisition_id=client.id)
                await self.wake_up_nexts()
            else:
                removed = await self.run_leave(client.id)
            if held is not None and held.is_alive(self.now_s):
                assert removed == 1, "a live holder had lost its slot"

    async def run_leave(self, id: str) -> int:
        """By a process that may have others who wait, and may miss what it is told of them."""
        box = self.rng.choice(["p", "q", "r", ""])
        reply = await self.run("leave", acquisition_id=id, mailbox=box)
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
        _, token, *states = await self.run("tend", acquisition_ids=ids)
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
        """Time passes: mostly little, sometimes more than anybody's lease."""
        self.now_s += self.rng.choice([0.0, 0.001, 0.1, 0.1, 1.0, 1.0, 1.0, 3.0, 6.0, 11.0])

    # -- what must be so ----------------------------------------------------------------------

    async def place(self, id: str) -> float | None:
        score = await self.commands.call("ZSCORE", NAMES.keys["waiting"], id)
        return None if score is None else float(score)

    async def members(self, key: str) -> dict[str, float]:
        pairs = await self.commands.call("ZRANGE", NAMES.keys[key], 0, -1, "WITHSCORES")
        return {member.decode(): float(score) for member, score in pairs}

    async def check(self) -> None:
        for id in [id for id, client in self.holding.items() if not client.is_alive(self.now_s)]:
            del self.holding[id]  # it knows by its own clock
        assert len(self.holding) <= self.limit
        main, queue, beats = await asyncio.gather(
            *(self.members(key) for key in ("main", "waiting", "waiting_heartbeat"))
        )
        assert len(main) <= self.limit
        for id in main.keys() - self.seeded:
            late_s = main[id] - self.spoke_s[id] - HEARTBEAT_S
            assert late_s < 1e-5, "a slot is kept for longer than its client may be silent"
        assert set(self.holding) <= set(main), "a live holder has no slot"
        assert set(beats) == set(queue)
        order = [id for id in queue if id in self.waiting and beats[id] > self.now_s]
        assert order == sorted(order, key=lambda id: self.waiting[id].came), (
            "not first come, first served"
        )
        for id in order:  # nobody that came later was let in before
            came = self.waiting[id].came
            for other in main:
                given = self.waiting.get(other)
                assert given is None or given.came < came or main[other] <= self.now_s

    async def check_no_slot_is_idle(self) -> None:
        """One call, by anybody, and no slot is free while somebody waits."""
        await self.run("tend", acquisition_ids=[])
        if await self.members("waiting"):
            assert len(await self.members("main")) == self.limit


async def simulate(rng: random.Random, limit: int, runs: int) -> None:
    async with holdfast.connect("memory://") as client:
        grants = believed = heard = done = 0
        while done < runs or not (believed and heard):  # else it shows nothing
            assert done < 10 * runs
            await client.flushdb()
            simulation = Simulation(commands_of(client), rng, limit)
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
