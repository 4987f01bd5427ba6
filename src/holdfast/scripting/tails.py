"""Keeps the frames that tail calls drop, where an error would need them.

LuaJIT replaces the frame of `return f(x)` by the one of `f`, also when `f` belongs to a library;
then an error in it cannot say in which line it was. Lua 5.1, which Redis has, keeps the frame of
calls into libraries. `return (f(x))` is no tail call, and means the same where `f` returns one
value: so that is what the tail calls of the functions below are made into.
"""

import re

# They return one value each. (`error` returns none, ever.)
_SINGLE = (
    rb"redis\s*\.\s*(?:call|pcall|sha1hex|log|setresp|set_repl|acl_check_cmd)"
    rb"|cjson\s*\.\s*(?!encode_sparse_array\b|new\b)\w+|cmsgpack\s*\.\s*pack|struct\s*\.\s*(?:pack|size)"
    rb"|string\s*\.\s*(?:rep|sub|len|upper|lower|reverse|format|char)"
    rb"|math\s*\.\s*(?!frexp\b|modf\b)\w+|table\s*\.\s*(?:concat|getn|maxn)|bit\s*\.\s*\w+|tonumber|tostring|error|rawset|setmetatable"
)
_ALIAS = re.compile(rb"\blocal\s+(\w+)\s*=\s*redis\s*\.\s*p?call\b(?!\s*[\(\"'{\[])")
_TOKEN = re.compile(
    rb"--\[(=*)\[.*?\]\1\]|--[^\n]*"  # comments
    rb"|\[(=*)\[.*?\]\2\]"  # long strings
    rb"|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
    rb"|\w+|\s+|.",
    re.DOTALL,
)
# What can follow a call that is all of a `return`.
_ENDS = frozenset({b"end", b"else", b"elseif", b"until", b";"})


def keep_frames(text: bytes) -> bytes:
    """The script without such tail calls, line by line the same. It must be valid Lua."""
    names = [*(re.escape(name) for name in _ALIAS.findall(text)), _SINGLE]
    tail = re.compile(rb"\breturn\s+(?=(?:%s)\s*\()" % b"|".join(names))
    if tail.search(text) is None:
        return text
    tokens = [match[0] for match in _TOKEN.finditer(text)]
    starts: dict[int, int] = {}  # where each token begins
    at = 0
    for index, token in enumerate(tokens):
        starts[at] = index
        at += len(token)
    for match in tail.finditer(text):
        first = starts.get(match.end())
        if first is None or match.start() not in starts:
            continue  # inside a string or comment
        last = _closing(tokens, first)
        if last is not None:
            tokens[first] = b"(" + tokens[first]
            tokens[last] += b")"
    return b"".join(tokens)


def _closing(tokens: list[bytes], first: int) -> int | None:
    """The token that closes the call, if nothing but it is returned."""
    depth = 0
    for index in range(first, len(tokens)):
        token = tokens[index]
        if token in (b"(", b"{", b"["):
            depth += 1
        elif token in (b")", b"}", b"]"):
            depth -= 1
            if depth == 0:
                break
    else:
        return None
    for token in tokens[index + 1 :]:
        if token.isspace() or token.startswith(b"--"):
            continue
        return index if token in _ENDS else None
    return index
