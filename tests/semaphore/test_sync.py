"""The semaphore without coroutines."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast.sync
from holdfast.semaphore import LeaseLostError, LimitMismatchError
from tests.semaphore.conftest import Place


def test_the_same_without_await(place: Place) -> None:
    with holdfast.sync.connect(place.url) as client:
        semaphore = holdfast.sync.Semaphore(client, "s", 2)
        first = semaphore.acquire()
        assert (first.slot_number, semaphore.count(), semaphore.locked()) == (1, 1, False)
        with semaphore as second:
            assert second.fencing_token > first.fencing_token
            assert semaphore.locked()
            assert semaphore.stats(["s"])[0] == ("s", 2, 0, 2)
        semaphore.resize(3)
        scope = semaphore.cm()
        with scope, semaphore:
            assert semaphore.count() == 3
        with pytest.raises(RuntimeError, match="used once"):
            scope.__enter__()
        assert semaphore.limit == 3
        with pytest.raises(LimitMismatchError):
            holdfast.sync.Lock(client, "s").acquire()
        with pytest.raises(ValueError, match="a lock has one slot, not 2"):
            holdfast.sync.Lock(client, "s").resize(2)
        assert semaphore.release(first)
        assert not semaphore.release(first.id)


def test_a_thread_learns_that_it_lost_its_slot(place: Place) -> None:
    with holdfast.sync.connect(place.url) as client:
        lock = holdfast.sync.Lock(client, "s", ttl_s=0.02)
        with pytest.raises(LeaseLostError), lock as acquisition:
            assert acquisition.lost.wait(30)
        with holdfast.sync.Lock(client, "s", ttl_s=0.02, cancel_on_loss=False) as acquisition:
            assert acquisition.lost.wait(30)


def test_the_wait_is_bounded(place: Place) -> None:
    with holdfast.sync.connect(place.url) as client, holdfast.sync.Lock(client, "s"):
        bounded = holdfast.sync.Lock(client, "s", max_acquire_time_s=0.01)
        with pytest.raises(TimeoutError):
            bounded.acquire()


def test_threads_share_a_semaphore(place: Place) -> None:
    inside: list[int] = []
    with holdfast.sync.connect(place.url) as client, ThreadPoolExecutor(8) as pool:
        semaphore = holdfast.sync.Semaphore(client, "s", 2)

        def work(n: int) -> bool:
            for _ in range(5):
                with semaphore:
                    inside.append(n)
                    fits = len(inside) <= 2
                    inside.remove(n)
                if not fits:
                    return False
            return True

        assert all(pool.map(work, range(8)))
