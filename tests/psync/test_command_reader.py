"""Commands of a stream, wherever its bytes are split, and the offset of the end of each."""

import random

import pytest

from holdfast.psync import open_commands
from holdfast.psync.command_reader import CommandReader
from holdfast.psync.events import PsyncError, TooLargeError
from holdfast.psync.open_commands import ARGUMENT_BYTES
from holdfast.resp import encode2


def written(argvs: list[list[bytes]]) -> bytes:
    return b"".join(encode2(list(argv)) for argv in argvs)


def in_pieces(data: bytes, rng: random.Random, longest: int) -> list[bytes]:
    pieces = []
    while data:
        size = rng.randint(1, longest)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


@pytest.mark.parametrize("longest", [1, 7, 400, 100_000])
def test_commands_are_the_same_wherever_the_bytes_are_split(
    rng: random.Random, longest: int
) -> None:
    argvs = [
        [rng.randbytes(rng.choice([0, 1, 30, 3000])) for _ in range(rng.choice([1, 2, 12]))]
        for _ in range(60)
    ]
    reader = CommandReader(100)
    found = [
        each for piece in in_pieces(written(argvs), rng, longest) for each in reader.feed(piece)
    ]
    assert [each.argv for each in found] == argvs
    ends = [100 + len(written(argvs[: count + 1])) for count in range(len(argvs))]
    assert [each.offset for each in found] == ends


def test_a_large_argument_is_copied_a_few_times_and_not_for_each_piece() -> None:
    reader = CommandReader(0)
    reader.feed(b"*2\r\n$1\r\na\r\n$50000000\r\n")
    for _ in range(50_000):
        assert reader.feed(b"x" * 1000) == []
    [command] = reader.feed(b"\r\n")
    assert len(command.argv[1]) == 50_000_000


@pytest.mark.parametrize("argument", [b"$0\r\n\r\n", b"$5000\r\n%b\r\n" % (b"x" * 5000)])
def test_a_command_that_does_not_end_is_not_collected_for_ever(
    argument: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its arguments count, and not only their bytes."""
    monkeypatch.setattr(open_commands, "MOST_OPEN_BYTES", 1_000_000)
    reader = CommandReader(0)
    reader.feed(b"*1\r\n$4\r\nPING\r\n" * 40_000)  # a million bytes of commands that have ended
    reader.feed(b"*100000000\r\n")

    def feed_more() -> None:
        for _ in range(1_000_000 // ARGUMENT_BYTES + 1):
            reader.feed(argument)

    with pytest.raises(TooLargeError, match="a command of the primary takes more than"):
        feed_more()


def test_an_argument_that_is_too_long_is_refused_at_its_length() -> None:
    """Else a bit that flips in a length would let the replica collect gigabytes in silence."""
    CommandReader(0).feed(b"*1\r\n$536870912\r\n")
    reader = CommandReader(50)
    reader.feed(b"*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$53687091")
    with pytest.raises(PsyncError, match="has an argument of 536,870,913 bytes, and Holdfast"):
        reader.feed(b"3\r\n")


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"PING\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$04\r\nPING\r\n",
        b"*1\r\n$4\r\nPING\n\n",
        b"*1\r\n+PING\r\n",
        b"*1\rX$4\r\nPING\r\n",
        b"*99999999999999999999",
        b"*1\r\n$\r\n",
    ],
)
def test_what_a_primary_does_not_write_is_damage(data: bytes) -> None:
    reader = CommandReader(41)
    ping = encode2([b"PING"])
    assert [each.offset for each in reader.feed(ping)] == [55]
    with pytest.raises(PsyncError, match=r"damaged after offset \d+: .* is no part of a command"):
        reader.feed(data)


def test_random_bytes_are_damage_or_a_part_of_a_command(rng: random.Random) -> None:
    for _ in range(2000):
        data = bytearray(written([[b"SET", b"key", b"value"]] * 3))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        reader = CommandReader(0)
        try:
            found = reader.feed(bytes(data))
        except PsyncError:
            continue
        assert written([each.argv for each in found]) == data[: found[-1].offset if found else 0]
