"""Values of modules, which Holdfast does not have: their type names, and how to skip the values.

A module writes numbers and strings, each after a byte that tells its kind, and a mark at the end.
"""

from collections.abc import Callable
from typing import Any, Final

from holdfast.store.rdb.primitives import Reader, Steps, one

# The letters of the names of module types, 6 bits each, as Redis numbers them.
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
NAME_LENGTH, VERSION_BITS = 9, 10

END: Final = 0
ITEMS: Final[dict[int, Callable[[Reader], object]]] = {
    1: Reader.length,  # a number with a sign
    2: Reader.length,
    3: lambda r: r.take(4),
    4: lambda r: r.take(8),
    5: Reader.string,
}


def type_name(number: int) -> str:
    """The name that a module gave to its type. The lowest bits of the number are a version."""
    letters = [number >> VERSION_BITS + 6 * place & 63 for place in reversed(range(NAME_LENGTH))]
    return "".join([LETTERS[letter] for letter in letters])


def pass_module_value(r: Reader) -> Steps[None]:
    while (kind := (yield from one(r, Reader.length))) != END:
        if kind not in ITEMS:
            raise ValueError("no part of a module's value is like this")
        yield from one(r, ITEMS[kind])


def pass_rows(r: Reader, count: int, *items: Callable[[Reader], Any]) -> Steps[None]:
    """Read rows as `rows` does, without keeping them."""
    for _ in range(count):
        for item in items:
            yield from one(r, item)
