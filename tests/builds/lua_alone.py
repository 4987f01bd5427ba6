"""The pure Lua modules, in a Lua that has no Redis."""

from importlib.resources import files
from typing import Any

from lupa import luajit21

LIB = files("holdfast.builds") / "lua" / "lib"
PURE = (
    "CollapseDecider",
    "CronDecider",
    "DependencyResolver",
    "StateValidator",
    "TimeoutDecider",
)


class Alone:
    """`alone(expression)` evaluates Lua; `m` is the module, `t` makes tables of Python's."""

    def __init__(self, module: str) -> None:
        self.lua = luajit21.LuaRuntime(register_eval=False)
        self.m: Any = self.lua.execute(f"{(LIB / f'{module}.lua').read_text()}\nreturn {module}")

    def table(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self.lua.table_from({k: self.table(v) for k, v in value.items()})
        if isinstance(value, list):
            return self.lua.table_from([self.table(item) for item in value])
        return value

    def python(self, value: Any) -> Any:
        """Tables as lists or dicts, several results as tuples."""
        if luajit21.lua_type(value) == "table":
            items = {k: self.python(v) for k, v in value.items()}
            is_list = list(items) == list(range(1, len(items) + 1))
            return list(items.values()) if is_list else items
        return tuple(map(self.python, value)) if isinstance(value, tuple) else value

    def bounded(self, most: int, function: str, *args: Any) -> Any:
        """The same call, which fails if it takes more instructions of Lua than that."""
        hook = "require('jit').off() debug.sethook(function() error('too much work') end, '', ...)"
        self.lua.compile(hook)(most)
        try:
            return self(function, *args)
        finally:
            self.lua.execute("debug.sethook()")

    def __call__(self, function: str, *args: Any) -> Any:
        return self.python(self.m[function](*map(self.table, args)))
