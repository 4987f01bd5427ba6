"""Tokens of forms. A token is valid for one session, one path and one use. No I/O.

So a form of another site is refused, because it has no token, and a recorded request cannot be sent
again.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict

LIFE_S = 12 * 3600
MOST_USED = 10_000  # remembered in each session; after that, older tokens are refused


class FormTokens:
    """The tokens of one session."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._used: OrderedDict[str, int] = OrderedDict()
        self._oldest_s = 0

    def issue(self, path: str, now_s: float) -> str:
        head = f"{int(now_s)}.{secrets.token_urlsafe(9)}"
        return f"{head}.{self._mac(path, head)}"

    def spend(self, token: str, path: str, now_s: float) -> str | None:
        """Use a token. None if it was valid; it is not valid a second time. Otherwise the
        reason."""
        issued, _, rest = token.partition(".")
        nonce, _, mac = rest.rpartition(".")
        head = f"{issued}.{nonce}"
        sent = mac.encode("utf-8", "surrogatepass")  # a form may have any bytes
        if not hmac.compare_digest(sent, self._mac(path, head).encode()):
            return "the form does not belong to this session"
        if not max(self._oldest_s, now_s - LIFE_S) <= int(issued) <= now_s + 60:
            return "the form is too old"
        if nonce in self._used:
            return "the form was sent already"
        self._used[nonce] = int(issued)
        if len(self._used) > MOST_USED:
            _, forgotten_s = self._used.popitem(last=False)
            self._oldest_s = max(self._oldest_s, forgotten_s + 1)
        return None

    def _mac(self, path: str, head: str) -> str:
        text = f"{path}\n{head}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()[:32]
