"""Replies on their way into scripts; how they look there is compared with redis-server."""

import pytest

from holdfast.resp import WRITERS2, WRITERS3, Several
from holdfast.scripting.conversions import to_lua


@pytest.mark.parametrize("resp3", [False, True])
def test_whatever_a_command_can_answer_can_be_given_to_a_script(resp3: bool) -> None:
    can_answer = set(WRITERS3 if resp3 else WRITERS2) - {Several}  # scripts cannot subscribe
    assert can_answer <= set(to_lua(dict, resp3))
