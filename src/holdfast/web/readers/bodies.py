"""Bytes that unknown programs wrote, as text that is safe to show. Nothing here runs, loads or
unpickles.

A job's body can be 100 MB, a JSON text of a million brackets, a zip bomb or a pickle. So all work
is limited, and the result is printable text that tells how much of the body it shows.
"""

import json
import re
import zlib
from dataclasses import dataclass
from typing import Any

MOST_BYTES = 64 * 1024  # of one body; the rest is cut
_MOST_NAME = 512
_READABLE = re.compile(rb"[\x20-\x7e]{3,200}")
_MOST_READABLE = 12


@dataclass(frozen=True, slots=True)
class Body:
    """A body as text. `kind`: json, text, pickle, binary; "zlib json" and so on if it was
    compressed. `size`: its bytes on the server. `is_cut`: `text` does not have all of it."""

    kind: str
    text: str
    size: int
    is_cut: bool = False


def printable(text: str) -> str:
    """The text with escapes for characters that a browser would not show, or would act on.

    Among them are characters that reverse the direction of text, because a name must not look like
    another name.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else _escaped(char) for char in text
    )


def name_text(name: bytes) -> str:
    """A key's name for people: UTF-8, with other bytes escaped, cut if it is extremely long."""
    text = printable(name[:_MOST_NAME].decode("utf-8", "backslashreplace"))
    text = text.replace("\n", "\\n").replace("\t", "\\t")
    return text if len(name) <= _MOST_NAME else f"{text}… ({len(name)} bytes)"


def body_of(data: bytes, size: int | None = None) -> Body:
    """The body in `data`, which may be only the beginning; `size` is that of the whole."""
    whole = len(data) if size is None else size
    shown = data[:MOST_BYTES]
    is_cut = len(shown) < whole
    if data[:1] == b"\x78" and (inner := _inflated(shown)) is not None:
        found = body_of(inner[:MOST_BYTES], len(inner))
        return Body(f"zlib {found.kind}", found.text, whole, is_cut or found.is_cut)
    if is_pickle(data):
        return Body("pickle", _pickle_summary(shown, whole), whole, is_cut)
    value = None if is_cut else parse_json(shown)
    if value is not None:
        return Body("json", printable(json.dumps(value, indent=2, ensure_ascii=False)), whole)
    try:
        # A cut may be within a character.
        text = shown.decode("utf-8", "ignore" if is_cut else "strict")
    except UnicodeDecodeError:
        return Body("binary", printable(shown.decode("utf-8", "backslashreplace")), whole, is_cut)
    return Body("text", printable(text), whole, is_cut)


def unread(size: int) -> Body:
    """A body that is too large to be read."""
    return Body("unread", f"{size:,} bytes: too large to show", size, True)


def parse_json(data: bytes) -> Any:
    """The value; None if it is not a JSON object, list or string, or if it is too large or too
    deep."""
    if len(data) > MOST_BYTES or not data[:1] or data[:1] not in b'{["':
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def parse_object(data: bytes | None) -> dict[str, Any]:
    """A JSON object; empty if it is not one."""
    value = parse_json(data) if data else None
    return value if isinstance(value, dict) else {}


def is_pickle(data: bytes) -> bool:
    return len(data) > 2 and data[0] == 0x80 and 2 <= data[1] <= 5


def text_of(value: Any, most: int = 2000) -> str:
    """A value from parsed JSON as one printable text."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = printable(text)
    return text if len(text) <= most else f"{text[:most]}…"


def call_text(function: Any, args: Any, kwargs: Any) -> str:
    """A call as Python writes it, from parsed JSON of any shape."""
    words = [text_of(each, 200) for each in args] if isinstance(args, list) else []
    if isinstance(kwargs, dict):
        words += [f"{text_of(name, 200)}={text_of(value, 200)}" for name, value in kwargs.items()]
    return text_of(f"{text_of(function, 200)}({', '.join(words)})")


def _escaped(char: str) -> str:
    code = ord(char)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


def _inflated(data: bytes) -> bytes | None:
    """The decompressed data up to a limit, because a few bytes can hold gigabytes."""
    try:
        return zlib.decompressobj().decompress(data, MOST_BYTES + 1)
    except zlib.error:
        return None


def _pickle_summary(data: bytes, size: int) -> str:
    """A description of a pickle, with the texts in it as strings(1) would find them."""
    found = [match.group().decode() for match in _READABLE.finditer(data)][:_MOST_READABLE]
    texts = f" Texts in it: {', '.join(found)}" if found else ""
    return (
        f"a pickle of protocol {data[1]}, {size:,} bytes. It is not loaded, because that can run"
        f" code.{texts}"
    )
