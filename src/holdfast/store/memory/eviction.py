"""Keeps memory below maxmemory: drops values that the file has, or deletes keys.

Memory is a cache: a forgotten key is loaded again on its next use. Data is deleted only by a
policy that the user has picked.
"""

import random
import sys
from collections import deque
from collections.abc import Callable
from math import gcd
from operator import attrgetter
from typing import Protocol

from holdfast.store.memory.events import EVICTED
from holdfast.store.memory.expiry import FROM_THE_START
from holdfast.store.memory.key import Key
from holdfast.store.memory.keyspace import Keyspace

FORGET_SAMPLES = 8  # for values that memory forgets; keys are deleted by maxmemory-samples
GO_TOGETHER = 16  # victims of one draw
MOST_FORGOTTEN = 64  # in a row; about 0.2 ms
MOST_DELETED = 64  # before a command; about 0.2 ms
MOST_LOADED = 100  # keys in a tick of the cron, under a policy that deletes
MOST_SEARCHES = 4  # for a packed key that may go

ANY_TIME = 1 << 32  # after all times of use

_last_use: Callable[[Key], float] = attrgetter("accessed_s")


class Cleanness(Protocol):
    def is_clean(self, key_id: int) -> bool: ...


class Sampler:
    """Finds keys that are worth little, as Redis does: the least of a sample.

    A dict cannot be sampled, so there is a list of the keys (10 ms for a million). A sample is what
    one finds in long strides through it, round and round, until each key was in one. Keys that
    came since are the ones used last, so they are not missed. A sample gives sixteen victims at
    about 1 µs each; one would cost 6 µs. Among equals the key that came first goes first.
    """

    def __init__(
        self, list_keys: Callable[[], list[Key]], worth: Callable[[Key], float], samples: int
    ) -> None:
        self._list_keys = list_keys
        self._worth = worth
        self._share = samples + 1  # one in so many goes: as many as if one of them was compared
        self.clear()

    def clear(self) -> None:
        self._keys: list[Key] = []
        self._samples_left = 0
        self._victims: list[Key] = []

    def next(self, may_go: Callable[[Key], bool]) -> Key | None:
        """A key that may go. None if no key of this sample may; the next sample may have one."""
        victims = self._victims or self._sample()
        while victims:
            key = victims.pop()
            if may_go(key):
                return key
        return None

    def put_back(self, key: Key) -> None:
        """It was the next one, and is the next one again."""
        self._victims.append(key)

    def _sample(self) -> list[Key]:
        size = GO_TOGETHER * self._share
        if self._samples_left <= 0:
            self._keys = self._list_keys()
            count = len(self._keys)
            self._samples_left = count // size
            self._start, self._stride = 0, _long_stride(count)
        self._samples_left -= 1
        keys = sample = self._keys
        if len(keys) > size:
            end = self._start + size * self._stride
            places = sorted([at % len(keys) for at in range(self._start, end, self._stride)])
            self._start = end % len(keys)
            sample = [keys[at] for at in places]
        least = sorted(sample, key=self._worth)[: max(1, len(sample) // self._share)]
        least.reverse()
        self._victims = least
        return least


class Eviction:
    """Forgets clean keys that were not used for long."""

    def __init__(self, keyspace: Keyspace, fold: Cleanness) -> None:
        self._keyspace = keyspace
        self._fold = fold
        self._sampler = Sampler(self._list_keys, _last_use, FORGET_SAMPLES)
        self._before_packed = 0  # so many victims go before the next look at packed keys
        self._lingering: deque[Key] = deque()  # keys that have expired, and wait for the fold

    def step(self, max_bytes: int) -> int:
        """Forget some keys, while memory is above `max_bytes`. Returns how many.

        None are forgotten while everything in memory still waits for the fold.
        """
        keyspace = self._keyspace
        if keyspace.used_bytes <= max_bytes:
            self._sampler.clear()
            return 0
        count = draws_in_vain = 0
        while keyspace.used_bytes > max_bytes and count < MOST_FORGOTTEN and draws_in_vain < 4:
            key = self._sampler.next(self._may_go)
            forgotten = self._forget_packed(key)
            if forgotten:
                count += forgotten
                if key is not None:
                    self._sampler.put_back(key)
            elif key is None:
                draws_in_vain += 1
            else:
                keyspace.evict(key)
                count += 1
        return count

    def _forget_packed(self, key: Key | None) -> int:
        """Forget packed keys that were used before this key; without a key, any packed keys. If
        none was found, the next victims of the sampler go first."""
        before_s = ANY_TIME
        if key is not None:
            before_s = key.accessed_s
            self._before_packed -= 1
            if self._before_packed >= 0:
                return 0
        forgotten = self._keyspace.forget_packed(GO_TOGETHER, FORGET_SAMPLES + 1, before_s)
        self._before_packed = 0 if forgotten else GO_TOGETHER
        return forgotten

    def forget_lingering(self, limit: int) -> int:
        """Forget keys that have expired, but that an active-active server keeps for a while (see
        `horizon_ms`). No client sees them, so memory does not need them either. Returns how many
        were found or forgotten. If that is `limit` or more, there may be others."""
        keyspace, lingering = self._keyspace, self._lingering
        horizon_ms, count = keyspace.horizon_ms, 0
        if horizon_ms < keyspace.now_ms:
            found = keyspace.expiring.pop_due(keyspace.now_ms, limit)
            lingering += found
            count = len(found)
        for _ in range(min(limit, len(lingering))):
            key = lingering.popleft()
            expires_at_ms = key.expires_at_ms
            if expires_at_ms is None or not key.is_attached:
                continue
            if not horizon_ms < expires_at_ms <= keyspace.now_ms:
                keyspace.expiring.push(key)  # its time has come, or has changed
            elif self._may_go(key):
                keyspace.evict(key)
                count += 1
            else:
                lingering.append(key)
        return count

    def _list_keys(self) -> list[Key]:
        return _in_memory(self._keyspace)

    def _may_go(self, key: Key) -> bool:
        keyspace = self._keyspace
        return (
            self._fold.is_clean(key.id)
            and key.is_attached
            and not keyspace.fold_state.is_ahead_of_file(key.id)
            and not keyspace.has_unwritten_value(key)
            and keyspace.shows(key.space)  # else a key from before FLUSHDB
            and not keyspace.loads.holds(key)
        )


class Deletion:
    """Deletes keys as a maxmemory-policy of Redis says.

    The limit is for all of the data, so all of it has to be in memory: `load_some` loads keys that
    a start has left in the file.
    """

    def __init__(
        self, keyspace: Keyspace, policy: str, max_bytes: int, samples: int, rng: random.Random
    ) -> None:
        self._keyspace = keyspace
        self._max_bytes = max_bytes
        self._only_volatile = policy.startswith("volatile")
        self._started_s = keyspace.now_s
        self._loaded_up_to = 0
        # Packed keys that expire before this time have been unpacked; None: all packed keys have.
        self._unpacked_up_to: tuple[int, int] | None = FROM_THE_START
        kind = policy.rpartition("-")[2]
        self._rng = rng
        self._is_random = kind == "random"
        self._packed_samples = GO_TOGETHER * samples  # to look at one takes nearly no time
        worths: dict[str, Callable[[Key], float]] = {"lru": _last_use, "lfu": self._uses}
        self._worth = worths.get(kind, self._by_chance)
        self._sampler = Sampler(self._list_keys, self._worth, samples)
        special = {"ttl": self._next_to_expire, "noeviction": _nobody}
        self._next = special.get(kind, self._sampled)

    @property
    def is_above_limit(self) -> bool:
        return self._keyspace.used_bytes > self._max_bytes

    def make_room(self) -> bool:
        """Delete some keys while memory is above the limit. False when there is none to delete."""
        keyspace = self._keyspace
        for _ in range(MOST_DELETED):
            if keyspace.used_bytes <= self._max_bytes:
                break
            key = self._next()
            if key is None:
                return False
            database = next(each for each in keyspace.databases if each.space is key.space)
            database.remove(key)
            database.touch(key.name)
            keyspace.evicted += 1
            if keyspace.on_removed is not None:
                keyspace.on_removed(database.index, key.name, [])
            database.notify(key.name, b"evicted", EVICTED)
        return True

    def _sampled(self) -> Key | None:
        key = self._sampler.next(self._may_go)
        if key is None:
            self._sampler.clear()  # its list is old; a new list may have a key that may go
            key = self._sampler.next(self._may_go)
        packed = self._packed(is_needed=key is None)
        if packed is None:
            return key
        if key is not None:
            if not self._is_random and self._worth(packed) > self._worth(key):
                return key  # the other one is not packed any more
            self._sampler.put_back(key)
        return packed

    def _packed(self, *, is_needed: bool) -> Key | None:
        """The least used of a sample of the keys that were packed before the policy began. It is
        unpacked. None if there is none. A random policy draws it only by chance, unless no other
        key is left."""
        keyspace = self._keyspace
        for database in keyspace.databases:
            space = database.space
            if space.packed is None or not space.packed_count:
                continue
            if self._is_random and not is_needed:
                share = space.packed_count / (space.packed_count + len(space.keys))
                if self._rng.random() >= share:
                    return None
            for _ in range(MOST_SEARCHES):
                name = space.packed.least(self._packed_samples, self._only_volatile)
                if name is not None:
                    return keyspace.unpack(space, name)
        return None

    def _next_to_expire(self) -> Key | None:
        """The heap of expiries knows the next key, so no sample is drawn. It does not know packed
        keys, so the first of them to expire are unpacked."""
        expiring = self._keyspace.expiring
        for _ in range(MOST_SEARCHES):
            up_to = self._unpacked_up_to
            if up_to is None or expiring.first_ms < up_to[0]:
                break
            self._unpack_by_expiry(up_to)
        while due := expiring.pop_due(sys.maxsize, 1):
            if self._may_go(due[0]):
                return due[0]
        return None

    def _unpack_by_expiry(self, after: tuple[int, int]) -> None:
        keyspace, tables = self._keyspace, self._keyspace.tables
        spaces = {each.space.id: each.space for each in keyspace.databases}
        if tables is None or not any(space.packed_count for space in spaces.values()):
            self._unpacked_up_to = None
            return
        rows = tables.due(after, sys.maxsize, MOST_LOADED)
        for key_id, space_id, name in tables.places([key_id for _, key_id in rows]):
            space = spaces.get(space_id)
            if space is not None and not keyspace.fold_state.is_ahead_of_file(key_id):
                keyspace.unpack(space, name)
        self._unpacked_up_to = rows[-1] if len(rows) == MOST_LOADED else None

    def _list_keys(self) -> list[Key]:
        return list(filter(self._may_go, _in_memory(self._keyspace)))

    def _may_go(self, key: Key) -> bool:
        return (
            key.is_attached
            and (key.expires_at_ms is not None or not self._only_volatile)
            and self._keyspace.shows(key.space)
        )

    def _by_chance(self, key: Key) -> float:
        return self._rng.random()

    def _uses(self, key: Key) -> int:
        """The counter of uses. Among keys with the same counter, the one that was not used for
        longest goes first."""
        frequencies = self._keyspace.frequencies
        assert frequencies is not None
        return frequencies.of(key) << 40 | key.accessed_s

    def load_some(self) -> None:
        """Some of the keys that are only in the file. They count as used when the policy began: no
        client has asked for them since."""
        keyspace, tables = self._keyspace, self._keyspace.tables
        spaces = {each.space.id: each.space for each in keyspace.databases if each.space.cold}
        if tables is None or not spaces:
            return
        rows = tables.rows_after(
            self._loaded_up_to, keyspace.fold_state.folded_below_id, MOST_LOADED
        )
        for key_id, space_id, name, type_name, expires_at_ms in rows:
            space = spaces.get(space_id)
            if space is None or name in space.keys or keyspace.fold_state.is_ahead_of_file(key_id):
                continue
            if keyspace.unpack(space, name) is not None:
                continue
            load = keyspace.begin_load(space, name)
            if load is None:
                if name in space.unloaded:
                    keyspace.load(space, name)
                else:
                    key = keyspace.adopt(space, key_id, name, type_name, expires_at_ms)
                    key.accessed_s = self._started_s
            elif load.value is None:
                load.is_wanted = True
                load.key.accessed_s = self._started_s
                keyspace.loads.step(load)  # the rest of a large one goes on in the next turns
        self._loaded_up_to = rows[-1][0] if rows else 0


def _long_stride(count: int) -> int:
    """About the golden ratio of `count`, so that samples follow no pattern in the keys; and without
    a common divisor with `count`, so that they meet every place."""
    stride = int(count * 0.618) | 1
    while gcd(stride, count) > 1:
        stride += 2
    return stride


def _in_memory(keyspace: Keyspace) -> list[Key]:
    return [key for database in keyspace.databases for key in database.space.in_memory()]


def _nobody() -> Key | None:
    return None
