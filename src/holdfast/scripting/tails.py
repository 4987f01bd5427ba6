"""Rewrites tail calls whose frames an error would need.

LuaJIT replaces the frame of `return f(x)` by the frame of `f`, also when `f` belongs to a library.
An error in `f` then has no line and no name of the function. Lua 5.1, which Redis has, keeps the
frame of calls into libraries. So tail calls of library functions are rewritten. If `f` returns one
value, the call becomes `return (f(x))`, which means the same. If `f` may return more values, it
becomes `return __keep(f(x))`, and `__keep` returns its arguments.
"""

import re
from typing import Final, NamedTuple

# These functions return one value each. (`error` never returns.)
_SINGLE = (
    rb"redis\s*\.\s*(?:call|pcall|sha1hex|log|setresp|set_repl|acl_check_cmd)"
    rb"|cjson\s*\.\s*(?!encode_sparse_array\b|new\b)\w+|cmsgpack\s*\.\s*pack|struct\s*\.\s*(?:pack|size)"
    rb"|string\s*\.\s*(?:rep|sub|len|upper|lower|reverse|format|char|gmatch)"
    rb"|math\s*\.\s*(?!frexp\b|modf\b)\w+|table\s*\.\s*(?:concat|getn|maxn)|bit\s*\.\s*\w+"
    rb"|tonumber|tostring|error|rawset|rawget|rawequal|setmetatable|getmetatable|type"
)
_SEVERAL = (
    rb"(?:redis|cjson|cmsgpack|struct|string|math|table|coroutine)\s*\.\s*\w+"
    rb"|assert|select|unpack|ipairs|pairs|next|pcall|xpcall|loadstring|load"
    rb"|\w+\s*:\s*(?:byte|find|format|gmatch|gsub|len|lower|match|rep|reverse|sub|upper)"
    rb"|\((?:\"[^\"\\\n]*\"|'[^'\\\n]*')\)\s*:\s*\w+"
)
_ALIAS = re.compile(
    rb"local\s+(\w+)\s*=\s*(?:redis|string|table|math|cjson|cmsgpack|struct)\s*\.\s*\w+"
    rb"(?!\w)(?!\s*[\(\"'{\[.:])"
)
# The called function, up to its arguments; its name may also be an alias.
_CALLEE = re.compile(rb"\s+()(?:(%b)\s*(?=\()|(?:%b|(\w+))\s*(?=[\(\"'{\[]))" % (_SINGLE, _SEVERAL))
_METHOD = re.compile(rb":\s*\w+\s*(?=[\(\"'{\[])")
# Each pattern begins with a character (not \b), so that `re` skips all other characters quickly.
_EVENT = re.compile(rb"--\[(=*)\[|--[^\n]*|\[(=*)\[|[\"'()\[\]{}]|return(?<!\wreturn)\b")
# The rest of a text in quotes. It is possessive: otherwise `re` would remember each byte of it.
_REST = {
    b'"': re.compile(rb"(?:[^\"\\]++|\\.)*+\"", re.DOTALL),
    b"'": re.compile(rb"(?:[^'\\]++|\\.)*+'", re.DOTALL),
}
_BLANKS = re.compile(rb"\s*+")
_WORD = re.compile(rb"\w+|.", re.DOTALL)
# The words that can follow a `return` that consists of one call.
_ENDS = frozenset({b"", b"end", b"else", b"elseif", b"until", b";"})

# The most brackets, texts and comments that are read. Each takes a microsecond, so all of them take
# a second, in which nothing can interrupt the search. In the rest of a longer script, errors may
# have another line.
MOST_EVENTS: Final = 1_000_000


class Call(NamedTuple):
    """A call that may be rewritten."""

    start: int
    opening: bytes


def keep_frames(text: bytes) -> bytes:
    """The script with its tail calls rewritten; each line keeps its number. A text that is not Lua
    stays as it is."""
    if b"return" not in text:
        return text
    aliases = frozenset(_ALIAS.findall(text))
    edits: list[tuple[int, bytes]] = []  # positions, and the texts to insert there
    brackets: list[Call | None] = []  # for each open bracket: the call whose arguments are in it
    next_call: Call | None = None  # its arguments come now
    at = 0
    for _ in range(MOST_EVENTS):
        event = _EVENT.search(text, at)
        if event is None:
            break
        token, at = event[0], event.end()
        call, next_call = next_call, None
        if token == b"return":
            next_call, at = _callee(text, at, aliases)
            continue
        if token in (b"(", b"{", b"["):
            brackets.append(call)
            continue
        if token in (b")", b"}", b"]"):
            call = brackets.pop() if brackets else None
        else:
            at = _end_of(text, event)
            if token.startswith(b"--"):
                continue
        if call is None:
            continue
        following = _following(text, at)
        method = _METHOD.match(text, following)
        word = _WORD.match(text, following)
        if method is not None:  # a method of the returned value is called
            next_call, at = call, method.end()
        elif (word[0] if word is not None else b"") in _ENDS:
            edits += [(call.start, call.opening), (at, b")")]
    return _edited(text, edits) if edits else text


def _callee(text: bytes, at: int, aliases: frozenset[bytes]) -> tuple[Call | None, int]:
    """The function that a `return` calls, and where its arguments begin."""
    found = _CALLEE.match(text, at)
    if found is None or (found[3] is not None and found[3] not in aliases):
        return None, at
    return Call(found.start(1), b"__keep(" if found[2] is None else b"("), found.end()


def _end_of(text: bytes, event: re.Match[bytes]) -> int:
    """The end of the text or comment that begins with this event: the end of the script, if it is
    not closed."""
    token = event[0]
    if token in _REST:
        rest = _REST[token].match(text, event.end())
        return len(text) if rest is None else rest.end()
    level = event[1] if event[1] is not None else event[2]
    if level is None:
        return event.end()
    closing = b"]%b]" % level
    end = text.find(closing, event.end())
    return len(text) if end < 0 else end + len(closing)


def _following(text: bytes, at: int) -> int:
    """The position of the next word, behind blanks and comments."""
    while True:
        blanks = _BLANKS.match(text, at)
        assert blanks is not None
        at = blanks.end()
        comment = _EVENT.match(text, at)
        if comment is None or not comment[0].startswith(b"--"):
            return at
        at = _end_of(text, comment)


def _edited(text: bytes, edits: list[tuple[int, bytes]]) -> bytes:
    pieces: list[bytes] = []
    last = 0
    for at, inserted in sorted(edits):
        pieces += [text[last:at], inserted]
        last = at
    return b"".join([*pieces, text[last:]])
