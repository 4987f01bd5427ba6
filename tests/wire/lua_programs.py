"""Random Lua programs with the same answer on every server: calls, conversions, errors that are
caught and errors that are not, nested tables, numbers as texts.

Programs without one answer are left out: addresses, the order of a table's fields, the sign of a
NaN, the order of texts in a locale; constants that Lua 5.1 merges (0 and -0) and texts that it ends
at a NUL (when it reads numbers or errors); the length of a table with holes; errors that are tables
without `err`, which crash redis-server 7.0.
"""

import random
from collections.abc import Callable

PRELUDE = """local function S(v)
  if type(v) == 'table' then return 'T' end
  if type(v) == 'function' then return 'F' end
  if v ~= v then return 'nan' end
  return tostring(v)
end
"""
KEYS = ("k", "n", "l", "h", "s", "z")


class Programs:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names: list[str] = []
        self._depth = 0

    def program(self) -> str:
        self._names = []
        lines = [self._statement() for _ in range(self._rng.randrange(1, 9))]
        return PRELUDE + "\n".join([*lines, self._return()])

    # -- choices --------------------------------------------------------------------------------

    def _one(self, *makers: Callable[[], str]) -> str:
        """One of them, simpler ones where it is deep already."""
        if self._depth > 4:
            return self._rng.choice(makers[:2])()
        self._depth += 1
        try:
            return self._rng.choice(makers)()
        finally:
            self._depth -= 1

    def _pick(self, *texts: str) -> str:
        return self._rng.choice(texts)

    def _some(self, make: Callable[[], str], most: int = 4) -> str:
        return ", ".join(make() for _ in range(self._rng.randrange(most + 1)))

    # -- statements -----------------------------------------------------------------------------

    def _statement(self) -> str:
        return self._one(
            self._local,
            self._local,
            self._call_statement,
            self._if,
            self._for,
            self._guarded,
            self._function,
            self._protocol,
            self._assignment,
            self._mistake,
        )

    def _local(self) -> str:
        name = f"v{len(self._names)}"
        value = self.value()
        self._names.append(name)
        return f"local {name} = {value}"

    def _assignment(self) -> str:
        return f"{self._rng.choice(self._names)} = {self.value()}" if self._names else "do end"

    def _call_statement(self) -> str:
        return self.call()

    def _block(self) -> str:
        known = list(self._names)
        lines = [self._statement() for _ in range(self._rng.randrange(1, 3))]
        self._names = known
        return "\n".join(lines)

    def _if(self) -> str:
        return f"if {self.truth()} then\n{self._block()}\nelse\n{self._block()}\nend"

    def _for(self) -> str:
        head = self._pick("i = 1, 3", "i = 3, 1, -1", "i = 0.5, 2", "i, x in ipairs({1, 'b', {}})")
        return f"for {head} do\n{self._block()}\nend"

    def _guarded(self) -> str:
        name = f"v{len(self._names)}"
        body = self._block()
        self._names.append(name)
        ending = self._pick("", f"return {self.value()}", f"error({self.message()})")
        how = self._pick(
            "{pcall(function()\n%s\n%s\nend)}",
            "{xpcall(function()\n%s\n%s\nend, function(e) return 'H' .. S(e) end)}",
            "{coroutine.resume(coroutine.create(function()\n%s\n%s\nend))}",
        )
        return f"local {name} = " + how % (body, ending)

    def _function(self) -> str:
        name = f"v{len(self._names)}"
        body = self._block()
        line = f"local function {name}(x)\n{body}\nreturn {self.value()}\nend"
        self._names.append(name)
        return line

    def _protocol(self) -> str:
        return f"redis.setresp({self._pick('2', '3', '3', '3', '4')})"

    def _mistake(self) -> str:
        """Mostly one that is not reached."""
        text = self._pick(
            f"error({self.message()})",
            f"error({self.message()}, {self._rng.randrange(4)})",
            f"local x = {self._operand()} + {self._operand()}",
            f"local x = {self._operand()} .. {self._operand()}",
            f"local x = {self._operand()} < {self._operand()}",
            f"local x = #{self._operand()}",
            f"local x = ({self._operand()}).field.other",
            f"({self._operand()})()",
            "undeclared = 1",
            "local x = undeclared",
            f"assert({self.truth()}, {self.text()})",
            self.misuse(),
        )
        return text if self._rng.random() < 0.3 else f"if {self.truth()} then {text} end"

    def _return(self) -> str:
        return "return " + self._one(
            lambda: "{" + ", ".join([*map(self._shown, self._names), self.value()]) + "}",
            self.value,
            self.call,
            lambda: self.special(self.text()),
            lambda: f"{self.value()}, {self.value()}",
        )

    def _shown(self, name: str) -> str:
        return self._pick(name, f"S({name})")

    # -- values ---------------------------------------------------------------------------------

    def value(self) -> str:
        return self._one(
            self.text,
            self.number,
            self.truth,
            self.table,
            self.variable,
            self.call,
            lambda: "nil",
            lambda: f"({self.value()} {self._pick('and', 'or')} {self.value()})",
        )

    def _operand(self) -> str:
        return self._one(self.variable, self.text, self.call, lambda: "{}", lambda: "nil")

    def variable(self) -> str:
        return self._rng.choice(self._names) if self._names else "nil"

    def _literal(self) -> str:
        return self._pick(
            *("0", "1", "-1", "2", "3.7", "-3.7", "1e15", "1e16", "0.1", "2^53", "2^63", "-2^63"),
            *("1e300", "1/0", "-1/0", "1/3", "1e-7", "0x1F", "123456789012", "-0.5"),
        )

    def number(self) -> str:
        return self._one(
            self._literal,
            self._literal,
            lambda: str(self._rng.randrange(-(10**6), 10**6)),
            lambda: repr(self._rng.uniform(-1000, 1000)),
            lambda: f"({self.number()} {self._pick(*'+-*')} {self.number()})",
            lambda: f"math.{self._pick('floor', 'ceil', 'abs')}({self.number()})",
            lambda: f"math.{self._pick('max', 'min')}({self.number()}, {self.number()})",
            lambda: f"#{self.text()}",
            lambda: f"#{{{self._some(self.text)}}}",
            lambda: f"(tonumber({self.text()}) or 7)",
            lambda: f"bit.{self._pick('band', 'bor', 'bxor')}({self.number()}, 255)",
        )

    def text(self) -> str:
        return self._one(
            lambda: self._pick("'a'", "''", "'hello world'", "'10'", "'1e3'", "'a\\r\\nb'"),
            lambda: f"'{self._rng.randrange(1000)}'",
            lambda: f"({self.text()} .. {self.text()})",
            lambda: f"({self.text()} .. {self._literal()})",
            lambda: f"S({self.value()})",
            lambda: f"tostring({self._literal()})",
            lambda: f"({self.text()}):{self._pick('upper', 'lower', 'reverse')}()",
            lambda: f"string.sub({self.text()}, {self._rng.randrange(-3, 4)}, 5)",
            lambda: f"string.rep({self.text()}, {self._rng.randrange(-1, 4)})",
            lambda: f"string.format('%{self._pick('d', '5d', 'x', 'g', '.3f', '.17g', 's')}', 37)",
            lambda: f"string.format('%s|%5.1f', {self.text()}, {self._rng.randrange(99)})",
            lambda: f"(string.gsub({self.text()}, '[a-l]', '<%0>'))",
            lambda: f"table.concat({{{self._some(self.text)}}}, ',')",
            lambda: f"cjson.encode({{{self._some(self._plain)}}})",
            lambda: f"redis.sha1hex({self.text()})",
            lambda: f"type({self.value()})",
        )

    def _plain(self) -> str:
        return self._one(
            self.text, self.truth, lambda: str(self._rng.randrange(100)), lambda: "{1, {2}}"
        )

    def truth(self) -> str:
        return self._one(
            lambda: "true",
            lambda: "false",
            lambda: f"({self.value()} == {self.value()})",
            lambda: f"not {self.value()}",
            lambda: f"({self.number()} < {self.number()})",
            lambda: f"('{self._pick(*'abc')}' <= '{self._pick(*'abc')}')",
        )

    def table(self) -> str:
        return self._one(
            lambda: "{}",
            lambda: f"{{{self._some(self.text)}}}",
            lambda: f"{{{self._some(self.value)}}}",
            lambda: f"{{{self._some(self.value)}}}",
            lambda: f"{{{self.value()}, nil, {self.value()}}}",
            lambda: f"{{field = {self.value()}}}",
            lambda: "{'a\\0b', redis.call('echo', '\\0x')}",
            lambda: f"{{{self.call()}}}",
            lambda: f"{{string.find({self.text()}, '{self._pick('l+', '(%w)(%w)', '.')}')}}",
            lambda: f"{{unpack({{{self._some(self.value)}}})}}",
            lambda: f"{{select({self._pick('1', '2', '-1')}, {self.value()}, {self.value()})}}",
            lambda: f"{{pcall({self._pick('error', 'tostring', 'redis.call')}, {self.text()})}}",
            lambda: f"cjson.decode(cjson.encode({{{self._some(self._plain)}}}))",
            lambda: f"{{cmsgpack.unpack(cmsgpack.pack({self.text()}, {self._rng.randrange(99)}))}}",
            lambda: self.special(self.text()),
        )

    def special(self, text: str) -> str:
        return self._pick(
            f"{{ok = {text}}}",
            f"{{err = {text}}}",
            f"{{err = 'CODE ' .. {text}}}",
            f"{{double = {self.number()}}}",
            f"{{map = {{[{text}] = {self.value()}}}}}",
            f"{{set = {{[{text}] = true}}}}",
            "{big_number = '1234567890123456789012345'}",
            f"{{verbatim_string = {{format = 'txt', string = {text}}}}}",
            f"redis.error_reply({text})",
            f"redis.error_reply('CODE ' .. {text})",
            f"redis.status_reply({text})",
        )

    def message(self) -> str:
        return self._one(
            self.text,
            lambda: str(self._rng.randrange(100)),
            lambda: f"{{err = {self.text()}}}",
            lambda: f"redis.error_reply('CODE ' .. {self.text()})",
            lambda: self._pick("nil", "true"),
        )

    # -- commands -------------------------------------------------------------------------------

    def call(self) -> str:
        return f"redis.{self._pick('call', 'call', 'pcall')}({self._command()})"

    def _command(self) -> str:
        key = f"'{self._rng.choice(KEYS)}'"
        text, number = self._argument(), self._rng.randrange(-2, 5)
        return self._pick(
            f"'set', 'k', {text}",
            "'get', 'k'",
            f"'get', {key}",
            f"'incr', {key}",
            f"'incrby', 'n', {text}",
            f"'incrbyfloat', 'n', {self.number()}",
            f"'append', 'k', {text}",
            "'strlen', 'k'",
            f"'mget', 'k', {key}, 'none'",
            f"'rpush', 'l', {text}, {self._argument()}",
            f"'lrange', 'l', {number}, -1",
            "'lpop', 'l'",
            f"'llen', {key}",
            f"'hset', 'h', 'f', {text}",
            "'hgetall', 'h'",
            "'hget', 'h', 'f'",
            f"'sadd', 's', {self._rng.randrange(2)}",
            "'scard', 's'",
            "'sismember', 's', 'm'",
            f"'zadd', 'z', {self.number()}, 'm'",
            "'zscore', 'z', 'm'",
            "'zrange', 'z', 0, -1, 'WITHSCORES'",
            f"'type', {key}",
            f"'exists', {key}, {key}",
            f"'del', {key}",
            f"'echo', {text}",
            "'ping'",
            f"'expire', {key}, 100",
            f"'ttl', {key}",
            f"'setnx', {key}, {text}",
            f"'getset', 'k', {text}",
            "'nope', 1",
            "'get'",
            f"'hset', {key}, 'f'",
            "'multi'",
            f"{self.value()}",
            "KEYS[1] or 'get', ARGV[1]",
            "'echo', unpack(ARGV)",
        )

    def _argument(self) -> str:
        return self._one(self.text, self.number, self.value)

    # -- misuse of Lua's own libraries ------------------------------------------------------------

    def misuse(self) -> str:
        library = self._pick(
            "string.rep",
            "string.sub",
            "string.format",
            "string.gsub",
            "string.find",
            "string.upper",
            "string.byte",
            "table.concat",
            "table.insert",
            "table.getn",
            "table.sort",
            "tonumber",
            "unpack",
            "select",
            "ipairs",
            "setmetatable",
            "math.max",
            "redis.sha1hex",
            "redis.error_reply",
            "redis.setresp",
            "redis.log",
            "cjson.decode",
            "cmsgpack.unpack",
            "struct.pack",
            "bit.band",
        )
        if library in ("math.max", "bit.band", "select", "string.rep", "table.concat"):
            return f"local x = {library}({self._pick('', 'nil', '{}', 'true', '[[x]]')})"
        return f"local x = {library}({self._some(self._odd, 3)})"

    def _odd(self) -> str:
        return self._pick(
            "nil", "{}", "true", "'x'", "5", "-1", "1.5", "'%d'", "'%'", "function() end"
        )
