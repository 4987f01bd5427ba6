"""The arguments of `exec` and `exec_dynamic` as commands and converters. No I/O."""

from holdfast.client.protocol.convert import Converter, converter
from holdfast.client.protocol.request import Request
from holdfast.client.protocol.special import Command, name_of


def command_of(command: object, args: Command) -> Command:
    """The command, its name in capitals. TypeError: it has no name."""
    if not isinstance(command, str | bytes):
        raise TypeError(f"exec() takes a command's name or a Request, not {command!r}")
    return (name_of(command), *args)


def commands_of(request: object) -> list[Command]:
    """The commands of a request. TypeError: it is none."""
    if not isinstance(request, Request):
        raise TypeError(f"exec_dynamic() takes a Request, not {request!r:.80}")
    return request.commands


def converters_of(request: Request, into: object) -> list[Converter]:
    """One converter per command. ValueError: `into` is no tuple of that length."""
    if not isinstance(into, tuple) or len(into) != len(request):
        raise ValueError(f"into= names one type per command: a tuple of {len(request)}")
    return [converter(slot) for slot in into]
