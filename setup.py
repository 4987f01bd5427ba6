"""Compiles the way of a request with mypyc, where there is a compiler. It stays plain Python:
what is not compiled, or cannot be, runs as it is, only slower. `HOLDFAST_PURE=1` compiles nothing.

Why and what to keep in mind when writing such code: docs/decisions/0008-compiling.md
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# Each group becomes one library, and they are compiled side by side. A class and its subclasses
# are compiled both or neither.
GROUPS = {
    "holdfast_values": """
        store/chunks store/elements store/list_ends store/lists store/ordered store/hashes
        store/sets store/ranking store/zsets
        store/stream_ids store/stream_entries store/stream_groups store/streams
    """,
    "holdfast_store": """
        resp/constants resp/requests resp/replies
        store/ops store/types store/keys store/freeing store/expiry store/renamed store/cold_rows
        store/database store/keyspace store/walking store/replicated_keyspace store/savepoint
        store/journal store/blocks store/stored_lists store/stream_blocks store/tables
        store/fold_rows store/fold_removals store/fold_lists store/fold_streams store/fold
        store/recovery store/store
    """,
    "holdfast_replicated": """
        crdt/dots crdt/effects crdt/hlc crdt/numbers crdt/log crdt/replicated
        crdt/positions crdt/sequence crdt/lists crdt/cell crdt/cells crdt/types crdt/streams
        crdt/sketches crdt/keys crdt/shapes
        store/members store/replicated_rows store/replicated_runs store/replicated_anew
        store/replicated_streams store/replicated_changes store/replicated_shown
        store/replicated_log store/replicated
    """,
    "holdfast_commands": """
        commands/context commands/table commands/args commands/numbers commands/expiry
        commands/strings commands/lists commands/keys commands/sort commands/hashes commands/sets
        commands/scores commands/zsets commands/zset_ranges
        commands/stream_ids commands/streams commands/stream_reads commands/stream_groups
    """,
    "holdfast_server": """
        scripting/conversions scripting/calls scripting/sandbox scripting/script
        server/families/admin server/families/scripting server/families/transactions
        server/latency server/meter server/session server/output server/connection server/lookup
        server/admission server/engine server/turn server/waiters server/waiting server/callees
        server/scripts
    """,
}


class BuildIfPossible(build_ext):
    """Without compiled modules rather than not at all."""

    def run(self) -> None:
        self.parallel = os.cpu_count()
        self.drop_leftovers()
        try:
            super().run()
        except Exception as error:  # noqa: BLE001 - whatever a compiler can fail with
            say(f"not compiled: {error}")
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions: list[Extension] = []

    def drop_leftovers(self) -> None:
        """Of modules that were compiled last time and are not now: Python would prefer them."""
        built = Path(self.build_lib)
        wanted = {built / self.get_ext_filename(extension.name) for extension in self.extensions}
        for path in {*built.rglob("*.so")} - wanted:
            path.unlink()


def extensions() -> list[Extension]:
    # pip asks for metadata first, twice; and what is distributed as source is Python.
    if os.environ.get("HOLDFAST_PURE") or {"egg_info", "dist_info", "sdist"} & {*sys.argv}:
        return []
    from mypyc.build import mypycify

    groups: list[tuple[list[str], str | None]] = [
        ([f"src/holdfast/{module}.py" for module in modules.split()], name)
        for name, modules in GROUPS.items()
    ]
    paths = [path for paths, _ in groups for path in paths]
    in_c = [
        Extension(f"holdfast.{name}", [f"src/holdfast/{name.replace('.', '/')}.c"], optional=True)
        for name in ("scripting._gate", "store._ranking")
    ]
    try:
        return [*mypycify(paths, separate=groups, opt_level="1", debug_level="0"), *in_c]
    except SystemExit:  # another mypy may know better what is wrong with our types, and says so
        say("not compiled: mypy does not accept it")
        return []


def say(what: str) -> None:
    print(f"holdfast: {what}", file=sys.stderr)  # noqa: T201 - shown with pip install -v


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildIfPossible})
