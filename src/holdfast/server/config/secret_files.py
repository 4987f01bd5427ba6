"""Files that contain one secret each: secrets of Docker, credentials of systemd, or files of the
operator."""

import os
import stat
from pathlib import Path

from holdfast.errors import ConfigError
from holdfast.server.config.environment import arguments_in
from holdfast.server.config.value_kinds import ValueKind

LONGEST_BYTES = 1 << 16

# The folder of Docker's secrets. All users may read them, but a container has only one user.
_OF_DOCKER = Path("/run/secrets")


class SecretFile:
    """The content of a file, without the line end at its end. Raises ConfigError.

    `word` names the setting that names the file. Messages never show the content.
    """

    def __init__(self, path: Path, word: str) -> None:
        self.word = word
        self.warnings: list[str] = []
        try:
            with path.open("rb") as file:
                content = file.read(LONGEST_BYTES + 1)
                mode = os.fstat(file.fileno()).st_mode
        except OSError as error:
            raise ConfigError(f"{word}: cannot read {path}: {error.strerror}") from None
        self.content = content.removesuffix(b"\n").removesuffix(b"\r")
        if not self.content.strip():
            raise ConfigError(f"{word}: {path} is empty")
        if len(content) > LONGEST_BYTES:
            raise ConfigError(f"{word}: {path} is larger than {LONGEST_BYTES} bytes")
        if mode & (stat.S_IROTH | stat.S_IWOTH) and _OF_DOCKER not in path.parents:
            self.warnings.append(
                f"{path} contains a secret, and every user of this machine may read it:"
                f" chmod 600 {path}"
            )

    def arguments(self, kind: ValueKind) -> list[list[bytes]]:
        """The directives in the content, by `arguments_in`. Raises ConfigError."""
        try:
            return arguments_in(self.content, kind)
        except ValueError as error:
            raise ConfigError(f"{self.word}: {error}") from None
