"""Where a server stands in its cluster, and what it says when it therefore takes no writes."""

from holdfast.errors import CommandError

# A server on a new file that has peers takes no writes before it has met one, who knows whether
# there was a node by its number before, and before it has caught up with one.
NEW, CATCHING_UP, MEMBER, REMOVED = "new", "catching-up", "member", "removed"
# Nor does one on a copy of a file: peers know which replica numbers its node has used. One whose
# file went two ways, both of them with writes, never does again; one whose node id another server
# has, too, does when that one is gone.
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
        " with an empty file and a node id of its own"
    ),
}
