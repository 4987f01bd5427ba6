"""Marks for the compiler, which do nothing at run time.

The compiler and the type checker read the stub beside this file instead. It has the marks of
mypy_extensions, a package that only these two need."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=type)


def mypyc_attr(**_: object) -> Callable[[T], T]:
    return lambda marked: marked
