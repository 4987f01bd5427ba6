"""Makes `tests` one package, so that no other package of that name can shadow it."""

import pytest

# Before its first import, so that its assertions show values as those of tests do.
pytest.register_assert_rewrite("tests.harness")
