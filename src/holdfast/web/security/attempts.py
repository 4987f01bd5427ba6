"""Failed attempts to sign in, so that passwords cannot be guessed quickly. No I/O."""

from collections import OrderedDict

MOST_FAILURES = 10
PERIOD_S = 60.0
MOST_ADDRESSES = 10_000


class SignInAttempts:
    """Counts failures by the address of the browser. After ten failures in a minute, an address has
    to wait for the rest of that minute."""

    def __init__(self) -> None:
        # begin of the minute, number
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_s(self, address: str, now_s: float) -> float:
        """The time that this address has to wait."""
        since_s, count = self._failures.get(address, (now_s, 0))
        rest_s = since_s + PERIOD_S - now_s
        # A longer rest than the period means that the clock was set back.
        return rest_s if count >= MOST_FAILURES and 0 < rest_s <= PERIOD_S else 0.0

    def failed(self, address: str, now_s: float) -> None:
        since_s, count = self._failures.pop(address, (now_s, 0))
        if not 0 <= now_s - since_s < PERIOD_S:
            since_s, count = now_s, 0
        self._failures[address] = since_s, count + 1
        while len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)
