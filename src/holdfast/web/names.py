"""Names and values, which are any bytes, in URLs, forms and pages. No I/O.

In a URL and in a hidden field, a name is percent-encoded. On a page, bytes that are not printable
text are escaped with backslashes, so that different names look different.
"""

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, quote_from_bytes, unquote_to_bytes

from holdfast.client.protocol.request import as_bytes
from holdfast.figures.view import shown

MOST_FIELDS = 1_000
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_SIMPLE = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"0": b"\0", b"\\": b"\\", b'"': b'"', b"'": b"'"}


def in_url(name: bytes | str) -> str:
    return quote_from_bytes(as_bytes(name), safe="")


def from_hidden(text: str) -> bytes:
    """The name in a hidden field that `in_url` has written."""
    return unquote_to_bytes(as_bytes(text))


def read_pairs(text: bytes) -> dict[str, str]:
    """The fields of a query or a form. If a name is repeated, its last value counts. Raises
    ValueError."""
    pairs = parse_qsl(
        text.decode("latin-1"),
        keep_blank_values=True,
        encoding="utf-8",
        errors="surrogateescape",
        max_num_fields=MOST_FIELDS,
    )
    return dict(pairs)


def is_plain(value: bytes) -> bool:
    """Whether the text area of a browser returns the same bytes: text with plain line ends."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return all(each.isprintable() or each in "\n\t" for each in text)


def escaped(value: bytes) -> str:
    """The text of `shown`, with readable line ends."""
    return shown(value)


def unescaped(text: str) -> bytes:
    """The bytes of an escaped text: \\xff, \\n, \\r, \\t, \\\\, \\u202e. Raises ValueError."""

    def part(match: re.Match[bytes]) -> bytes:
        if match[1] is not None:
            return bytes([int(match[1], 16)])
        if match[2] in _SIMPLE:
            return _SIMPLE[match[2]]
        raise ValueError(f"unknown escape \\{match[2].decode('utf-8', 'replace')}")

    unicode_done = re.sub(
        rb"(?<!\\)((?:\\\\)*)\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))",
        lambda m: m[1] + chr(int(m[2] or m[3], 16)).encode("utf-8", "surrogatepass"),
        as_bytes(text),
    )
    return _ESCAPE.sub(part, unicode_done)


def line_of(words: Iterable[bytes], most: int = 2_000) -> str:
    """A command as a user would type it, with escapes. Long words are cut."""
    return " ".join(_quoted(shown(word[:most])) for word in words)


def _quoted(text: str) -> str:
    if text and not set(text) & set(" \"'\\"):
        return text
    return '"' + text.replace('"', '\\"') + '"'


def typed(text: str, is_escaped: bool) -> bytes:
    """The bytes of a text area. Browsers send line ends as CR LF."""
    return unescaped(text) if is_escaped else as_bytes(text.replace("\r\n", "\n"))
