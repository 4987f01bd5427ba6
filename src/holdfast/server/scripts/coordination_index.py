"""The semaphores and build queues for which scripts were called lately, so that /metrics finds
them.

There is no list of semaphores: a semaphore is a handful of keys whose names share a part, and to
find these keys would mean to look at all keys. But only scripts change a semaphore or a queue, and
each of its clients calls such a script every few seconds (a heartbeat). The header of the script
says which of its keys names the semaphore or the queue. So the server notes these names.
"""

import re

from holdfast.scripting.script import Role

SEMAPHORE, QUEUE = "semaphore", "queue"

# Lines in the headers of the scripts in semaphore/lua and builds/lua.
_ROLES = (
    (SEMAPHORE, re.compile(rb"^-- KEYS\[(\d)\] main +ZSET: holders", re.MULTILINE)),
    (QUEUE, re.compile(rb"^-- KEYS\[(\d)\] queue +the key of the queue", re.MULTILINE)),
)
HEADER_BYTES = 4096
MOST = {SEMAPHORE: 2000, QUEUE: 50}  # names that are kept

Name = tuple[int, bytes]  # number of the database, key


def role_of(text: bytes) -> Role | None:
    header = text[:HEADER_BYTES]
    for kind, declared in _ROLES:
        found = declared.search(header)
        if found is not None:
            return Role(kind, int(found[1]))
    return None


class CoordinationIndex:
    def __init__(self) -> None:
        self.names: dict[str, dict[Name, None]] = {kind: {} for kind in MOST}

    def note(self, role: Role, database: int, argv: list[bytes], key_count: int) -> None:
        """Note the name for which a script with this role is called. If there are too many names,
        the first one is dropped. If it is still in use, its next heartbeat brings it back."""
        if not 0 < role.key_number <= key_count:
            return
        names, name = self.names[role.kind], (database, argv[2 + role.key_number])
        if name not in names:
            if len(names) >= MOST[role.kind]:
                del names[next(iter(names))]
            names[name] = None

    def forget(self, kind: str, gone: list[Name]) -> None:
        for name in gone:
            self.names[kind].pop(name, None)
