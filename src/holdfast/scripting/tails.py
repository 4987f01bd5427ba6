"""Keeps the frames that tail calls drop, where an error would need them.

LuaJIT replaces the frame of `return f(x)` by the one of `f`, also when `f` belongs to a library;
then an error in it cannot say in which line it was, nor what `f` is called. Lua 5.1, which Redis
has, keeps the frame of calls into libraries. So tail calls of library functions are made into
others: `return (f(x))` means the same where `f` returns one value, `return __keep(f(x))`, which
returns what it is given, where it may return more.
"""

import re

# They return one value each. (`error` returns none, ever.)
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
    rb"\blocal\s+(\w+)\s*=\s*(?:redis|string|table|math|cjson|cmsgpack|struct)\s*\.\s*\w+"
    rb"(?!\w)(?!\s*[\(\"'{\[.:])"
)
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
    if b"return" not in text:
        return text
    several = b"|".join([_SEVERAL, *(re.escape(name) for name in _ALIAS.findall(text))])
    tail = re.compile(rb"\breturn\s+(?=(%s)\s*\(|(?:%s)\s*[\(\"'{\[])" % (_SINGLE, several))
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
            tokens[first] = (b"(" if match[1] else b"__keep(") + tokens[first]
            tokens[last] += b")"
    return b"".join(tokens)


def _closing(tokens: list[bytes], first: int) -> int | None:
    """The token that closes the call, if nothing but it is returned."""
    depth = 0
    last: int | None = None
    for index in range(first, len(tokens)):
        token = tokens[index]
        if token in (b"(", b"{", b"["):
            if depth == 0 and last is not None:
                return None  # what was returned is called
            depth += 1
        elif token in (b")", b"}", b"]"):
            depth -= 1
            last = index if depth == 0 else None
        elif last is not None and not token.isspace() and not token.startswith(b"--"):
            if token != b":":
                return last if token in _ENDS else None
            last = None  # a method of what was returned is called
    return last
