"""Numbers among the arguments."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.commands.args import parse_int
from holdfast.errors import CommandError

WHOLE = re.compile(rb"0|-?[1-9][0-9]*")


@given(st.text("-+ 0123456789", max_size=21).map(str.encode) | st.integers().map(b"%d".__mod__))
@example(b"-1")
@example(b"-0")
@example(b"-")
@example(b"-999999999999999")
@example(b"-1000000000000000")
@example(b"-9223372036854775808")
@example(b"-9223372036854775809")
@example(b"9223372036854775808")
def test_an_integer_is_a_text_that_redis_takes_for_one(text: bytes) -> None:
    is_whole = WHOLE.fullmatch(text) is not None and -(1 << 63) <= int(text) < 1 << 63
    try:
        number = parse_int(text)
    except CommandError:
        assert not is_whole
    else:
        assert is_whole
        assert number == int(text)
