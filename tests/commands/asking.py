"""Questions to an engine, and its replies as values."""

import shlex

import hiredis

from tests.harness.in_process import InProcess, Peer


def ask(peer: Peer, line: str) -> object:
    """The reply to a command, written as one types it. An error is its text, as bytes."""
    reader = hiredis.Reader()
    reader.feed(peer.command(*shlex.split(line)))
    reply = reader.gets()
    return reply.args[0].encode() if isinstance(reply, hiredis.ReplyError) else reply


def new_peer(*setup: str) -> Peer:
    """A client of a new engine that has run these commands."""
    peer = InProcess().peer()
    for line in setup:
        ask(peer, line)
    return peer
