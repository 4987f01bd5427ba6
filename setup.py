"""Compiles the modules that every request passes through with mypyc. The source is plain Python: a
module that is not compiled works the same, only slower.

Where nothing can be compiled, the installation goes on, and the wheel says so and why: in its file
name, because pip shows that and hides what a build prints, and in holdfast/not_compiled, which
`holdfast serve` shows. `HOLDFAST_PURE=1` compiles nothing.

The reasons, and the rules for such modules: docs/decisions/0008-compiling.md and
docs/decisions/0027-packaging.md
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

# Each group becomes one library; groups are compiled in parallel. If a class is compiled, its
# subclasses are compiled too. The modules of a room follow its name.
GROUPS = {
    "holdfast_values": """
        store/values: packed_form list_chunks list_elements list_ends list insertion_order hash set
            score_index zset stream_id stream_entries stream_group stream_idempotence stream
            stream_references stream_producers
    """,
    "holdfast_store": """
        resp: c_strings constants requests replies
        store/change: ops stream_blocks runs undo intents fold_state change_log
        store/values: registry
        store/memory: liveness packed_keys packing key string_parts lazy_free expiry renamed
            cold_rows loads database keyspace scanning savepoint
        store/replicated: replicated_database replicated_keyspace
        store/file: journal list_blocks cold_lists mark tables
        store/fold: pending_rows collect delete_rows sorted_names write_keys new_packed write_lists
            write_sizes write_streams new_keys fold
        store: recovery store
    """,
    "holdfast_rdb": """
        store/rdb: crc64 packed primitives stream_codec plain value_codec module_values records
            file_reader file_writer
        psync: events command_reader
        migration: small_collections database_content database_target
    """,
    "holdfast_replicated": """
        crdt: dots effects hlc exact_numbers causal_log replicated_value positions sequence
            replicated_list cell cells replicated_types replicated_stream replicated_sketch
            replicated_key shapes
        store/replicated: members replica_keys record_builder overwrite stream_effects
            effect_builder shown_commands view_updater record_log replica_state residue inbound
            stage
    """,
    "holdfast_commands": """
        commands: context table args numbers key_expiry string_args strings list_args lists
            list_moves keys sort hashes sets
        commands/zsets: zset_args zsets zset_ranges
        commands/streams: stream_args stream_budget stream_read_args streams stream_reads
            stream_groups
    """,
    "holdfast_server": """
        scripting: conversions calls sandbox script
        server/commands: admin_commands excluded_commands scripting_commands transactions_commands
        server/features: condition latency meter
        server/sessions: session session_host bounded_session
        server/net: wire_connection
        server/dispatch: lookup invoke
        server/core: admission engine turn blocking loading short_requests
        server/replica: position primary_session
        server/primary: backlog propagation effect_log
        server/scripts: script_command script_cache scripts
    """,
}


class NotCompiledError(Exception):
    """`words` are a part of the wheel's file name, `reason` is for people."""

    def __init__(self, words: str, reason: str) -> None:
        super().__init__(reason)
        self.words = words
        self.reason = " ".join(reason.split())


not_compiled: NotCompiledError | None = None


class BuildExtensions(build_ext):
    def run(self) -> None:
        global not_compiled
        self.parallel = os.cpu_count()
        self.drop_leftovers()
        try:
            super().run()
        except Exception as error:  # noqa: BLE001 - a compiler can fail in any way
            not_compiled = NotCompiledError(
                "the_compiler_failed", f"the C compiler failed: {error}"
            )
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions: list[Extension] = []
            self.distribution.ext_modules = []

    def drop_leftovers(self) -> None:
        """Delete libraries of modules that are no longer compiled. Python would import these
        instead of the source."""
        built = Path(self.build_lib)
        wanted = {built / self.get_ext_filename(extension.name) for extension in self.extensions}
        for path in {*built.rglob("*.so")} - wanted:
            path.unlink()


class Build(build):
    """Writes down why nothing is compiled, for `holdfast serve`."""

    def run(self) -> None:
        super().run()
        note = Path(self.build_lib, "holdfast", "not_compiled")
        note.unlink(missing_ok=True)
        if not_compiled:
            note.write_text(not_compiled.reason + "\n")
            print(f"holdfast: not compiled: {not_compiled.reason}", file=sys.stderr)  # noqa: T201


class Wheel(bdist_wheel):
    """The tag of a wheel depends on whether compiling worked, which is known after the build."""

    def run_command(self, command: str) -> None:
        super().run_command(command)
        if command == "build" and not_compiled:
            self.root_is_pure = True
            self.build_number = f"0_not_compiled_{not_compiled.words}"


def extensions() -> list[Extension]:
    global not_compiled
    # pip asks for metadata twice before it builds; a source distribution contains no libraries.
    if {"egg_info", "dist_info", "sdist"} & {*sys.argv}:
        return []
    try:
        expect_a_compiler()
        return sorted([*translated_to_c(), *written_in_c()], key=source_bytes, reverse=True)
    except NotCompiledError as reason:
        not_compiled = reason
        return []


def expect_a_compiler() -> None:
    if os.environ.get("HOLDFAST_PURE"):
        raise NotCompiledError("HOLDFAST_PURE", "HOLDFAST_PURE was set when it was built")
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if sys.platform != "win32" and not shutil.which(compiler):
        raise NotCompiledError("no_C_compiler", f"there was no C compiler ({compiler})")
    headers = Path(sysconfig.get_path("include"), "Python.h")
    if not headers.exists():
        raise NotCompiledError(
            "no_headers_of_Python", f"the headers of Python were missing (no {headers})"
        )


def translated_to_c() -> list[Extension]:
    try:
        from mypyc.build import mypycify
    except ImportError as error:  # pip install --no-build-isolation
        raise NotCompiledError("no_mypy", f"mypyc could not be imported: {error}") from None
    groups: list[tuple[list[str], str | None]] = [
        (paths_in(rooms), name) for name, rooms in GROUPS.items()
    ]
    paths = [path for paths, _ in groups for path in paths]
    try:
        compiled = mypycify(paths, separate=groups, opt_level="1", debug_level="0")
    except SystemExit:  # it has printed the errors
        raise NotCompiledError(
            "mypy_found_errors", "mypy found errors in the types; pip -v shows them"
        ) from None
    for extension in compiled:
        # The libraries find each other through capsules. Names that they do not show are not
        # looked up when they are loaded, and calls inside of a library are direct.
        extension.extra_compile_args = [*extension.extra_compile_args, "-fvisibility=hidden"]
    return compiled


def written_in_c() -> list[Extension]:
    return [
        Extension(
            f"holdfast.{name}",
            [f"src/holdfast/{name.replace('.', '/')}.c"],
            extra_compile_args=["-g0"],
            optional=True,
        )
        for name in (
            *("_xxh3", "resp._bulks", "scripting._gate"),
            *("store.fold._sorted_names", "store.rdb._rdb"),
            *("store.memory._packed_keys", "store.memory._string_parts"),
            "store.values._score_index",
        )
    ]


def source_bytes(extension: Extension) -> int:
    """The largest is compiled first, so that it is not alone at the end."""
    return sum(Path(source).stat().st_size for source in extension.sources)


def paths_in(rooms: str) -> list[str]:
    """The paths of the modules, which are listed after their rooms."""
    room, paths = "", []
    for word in rooms.split():
        if word.endswith(":"):
            room = word[:-1]
        else:
            paths.append(f"src/holdfast/{room}/{word}.py")
    return paths


setup(
    ext_modules=extensions(),
    cmdclass={"build": Build, "build_ext": BuildExtensions, "bdist_wheel": Wheel},
)
