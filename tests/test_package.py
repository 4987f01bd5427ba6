"""The names that a star import of `holdfast` and its parts gives."""

import builtins
import importlib

import pytest

import holdfast

MODULES = ["holdfast", "holdfast.builds", "holdfast.client", "holdfast.semaphore", "holdfast.sync"]


@pytest.mark.parametrize("name", MODULES)
def test_a_star_import_hides_no_builtin(name: str) -> None:
    module = importlib.import_module(name)
    assert not set(module.__all__) & set(dir(builtins))
    for each in module.__all__:
        assert getattr(module, each) is not None


def test_open_is_still_there_by_its_full_name() -> None:
    assert holdfast.open.__module__ == "holdfast"
