"""Finds the command that an argv calls on this server, and keeps the statistics of each command."""

from holdfast import commands as commands
from holdfast.commands.table import TABLE, Command
from holdfast.errors import CommandError, ConfigError
from holdfast.resp.c_strings import c_string
from holdfast.server.config.config import Config
from holdfast.server.features.latency import Stats


def renamed_table(config: Config) -> dict[str, Command]:
    """The table of commands after `rename-command`. Raises ConfigError."""
    table = dict(TABLE)
    for old, new in config.rename_command:
        name, new_name = (word.decode("latin-1").lower() for word in (old, new))
        if name not in table:
            raise ConfigError(f"rename-command: there is no command '{name}'")
        if new_name in table:
            raise ConfigError(f"rename-command: there is a command '{new_name}' already")
        entry = table.pop(name)
        if new_name:
            table[new_name] = entry
    return table


class Commands:
    """The commands of this server."""

    def __init__(self, config: Config) -> None:
        self.table = renamed_table(config)
        self.stats: dict[str, Stats] = {}
        # By the spelling of clients ("GET", "get"), so that the usual case is one look-up.
        self.spellings: dict[bytes, tuple[Command, Stats]] = {}

    def find(self, argv: list[bytes]) -> tuple[Command, Stats]:
        """The command or subcommand that an argv calls. Raises CommandError with the text for the
        client."""
        found = self.spellings.get(argv[0])
        if found is not None:
            return found
        entry = self.table.get(argv[0].decode("latin-1").lower())
        if entry is None:
            raise _unknown_command(argv)
        if entry.subcommands and len(argv) > 1:
            return self._subcommand(entry, argv)
        found = (entry, self.stats_of(entry))
        if not entry.subcommands and len(self.spellings) < 4096:
            self.spellings[argv[0]] = found
        return found

    def any(self) -> tuple[bytes, tuple[Command, Stats]]:
        """A command that has no subcommands, and its spelling."""
        name = next(name for name, entry in self.table.items() if not entry.subcommands)
        spelling = name.encode("latin-1")
        return spelling, self.find([spelling])

    def _subcommand(self, container: Command, argv: list[bytes]) -> tuple[Command, Stats]:
        entry = container.subcommands.get(argv[1].decode("latin-1").lower())
        if entry is None:
            raise CommandError(
                b"ERR unknown subcommand '%s'. Try %s HELP." % (_excerpt(argv[1]), argv[0].upper())
            )
        return entry, self.stats_of(entry)

    def stats_of(self, command: Command) -> Stats:
        stats = self.stats.get(command.name)
        if stats is None:
            stats = self.stats[command.name] = Stats()
        return stats

    @property
    def calls(self) -> int:
        return sum(stats.calls for stats in self.stats.values())

    def reset_stats(self) -> None:
        for stats in self.stats.values():
            stats.reset()


def _unknown_command(argv: list[bytes]) -> CommandError:
    shown = b""
    for arg in argv[1:]:
        if len(shown) >= 128:
            break
        shown += b"'%s' " % _excerpt(arg, 128 - len(shown))
    return CommandError(
        b"ERR unknown command '%s', with args beginning with: %s" % (_excerpt(argv[0]), shown)
    )


def _excerpt(arg: bytes, length: int = 128) -> bytes:
    """The part of an argument that Redis repeats in an error, where its strings end at a NUL."""
    return c_string(arg)[:length]


def wrong_arity(command: Command) -> CommandError:
    return CommandError(f"ERR wrong number of arguments for '{command.name}' command")
