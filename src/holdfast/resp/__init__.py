"""The wire format: bytes become requests, replies become bytes. No sockets, no commands, no I/O."""

from holdfast.resp.constants import NULL_ARRAY, OK, PONG, QUEUED
from holdfast.resp.kinds import (
    Attributed,
    BigNumber,
    HumanFloat,
    Map,
    NullArray,
    Pairs,
    Push,
    Reply,
    SetReply,
    Several,
    Simple,
    Verbatim,
)
from holdfast.resp.replies import (
    WRITERS2,
    WRITERS3,
    double_text,
    encode,
    encode2,
    encode3,
    written,
)
from holdfast.resp.requests import RequestParser

__all__ = [
    "NULL_ARRAY",
    "OK",
    "PONG",
    "QUEUED",
    "WRITERS2",
    "WRITERS3",
    "Attributed",
    "BigNumber",
    "HumanFloat",
    "Map",
    "NullArray",
    "Pairs",
    "Push",
    "Reply",
    "RequestParser",
    "SetReply",
    "Several",
    "Simple",
    "Verbatim",
    "double_text",
    "encode",
    "encode2",
    "encode3",
    "written",
]
