"""Marks for the compiler, which do nothing at run time. Type checker and compiler read the stub
beside this file: there they are the marks of mypy_extensions, which is not installed with us."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=type)


def mypyc_attr(**_: object) -> Callable[[T], T]:
    return lambda marked: marked
