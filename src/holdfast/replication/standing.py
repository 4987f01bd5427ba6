"""The states of a server in its cluster, and the errors of those in which it takes no writes."""

from holdfast.errors import CommandError

# A server on a new file rejects writes until it has one peer's full state, because peers may
# remember an earlier node with the same id.
NEW, CATCHING_UP, MEMBER, REMOVED = "new", "catching-up", "member", "removed"
# A server on a copy of a file rejects writes until it has met a peer, because peers know which
# replica numbers its node has used. If both the file and its copy were written to, the server never
# takes writes again. If another server has its node id, the server takes writes when that other
# server is gone.
COPIED, FORKED, DISPUTED = "copied", "forked", "duplicate"
REFUSALS = {
    NEW: CommandError("READONLY this server has not reached its peers yet, see ACTIVE PEERS"),
    COPIED: CommandError(
        "READONLY this server's file is a copy, and it has not reached its peers yet,"
        " see ACTIVE PEERS"
    ),
    CATCHING_UP: CommandError("READONLY this server has not caught up with its peers yet"),
    REMOVED: CommandError("READONLY this server was removed from its cluster"),
    FORKED: CommandError(
        "READONLY a copy of this server's file has written, too, and the peers have its writes:"
        " save what you need from here, and start again with an empty file"
    ),
    DISPUTED: CommandError(
        "READONLY another server has the same node id: stop one of the two, and start it again"
        " with an empty file and a node id of its own. If this server has just been restored from a"
        " copy, the other one is this server before that: wait half a minute"
    ),
}
