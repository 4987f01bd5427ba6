"""The addresses of the peers. Addresses are in the database file. Logins are not, because copies
and backups of the file go to places where passwords must not be. The logins that came with ACTIVE
JOIN are in another file beside it (`NAME.db-peers`).
"""

import json
import logging
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from holdfast.errors import CommandError
from holdfast.server.config.replace_file import replace_file
from holdfast.store.replicated.stage import ReplicationStage

log = logging.getLogger(__name__)

_LOGIN = ("username", "password")


def bare(url: str) -> str:
    """The URL without its login."""
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    place, slash, path = rest.partition("/")
    said = [(name, text) for name, text in parse_qsl(query, True) if name not in _LOGIN]
    return f"{scheme}://{place.rpartition('@')[2]}{slash}{path}" + (
        f"?{urlencode(said)}" if said else ""
    )


class Addresses:
    def __init__(self, stage: ReplicationStage, database: Path | None) -> None:
        self._path = database and database.with_name(f"{database.name}-peers")
        self._logins: dict[str, str] = {}  # by bare URL: the URL with its login
        self._read()
        self._take_out_logins(stage)

    def _read(self) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            found = json.loads(self._path.read_text())
            self._logins = {str(url): str(login) for url, login in found.items()}
        except (OSError, ValueError, AttributeError) as error:
            log.error("cannot read %s, so peers may refuse our login: %s", self._path, error)

    def _take_out_logins(self, stage: ReplicationStage) -> None:
        """Move logins out of the database file, where an earlier version kept them."""
        joined = stage.facts.get(b"joined", ())
        nodes = stage.facts.get(b"urls", {})
        logins = {bare(url): url for url in joined if url != bare(url)}
        if logins:
            self._keep(self._logins | logins)
        if logins or any(url != bare(url) for url in nodes):
            stage.note(b"joined", list(dict.fromkeys(map(bare, joined))))
            stage.note(b"urls", {bare(url): node for url, node in nodes.items()})

    def of(self, configured: list[str], stage: ReplicationStage) -> list[str]:
        """All addresses, each once. The login of ACTIVE JOIN is used if the configuration has
        none."""
        urls = {bare(url): url for url in configured}
        for place in stage.facts.get(b"joined", ()):
            if urls.get(place, place) == place:
                urls[place] = self._logins.get(place, place)
        return list(urls.values())

    def joined(self, url: str) -> None:
        """Add an address. Raises CommandError."""
        place = bare(url)
        others = {each: login for each, login in self._logins.items() if each != place}
        self._write(others if url == place else others | {place: url})

    def left(self, place: str) -> None:
        """Remove an address. Raises CommandError."""
        self._write({each: url for each, url in self._logins.items() if each != place})

    def _write(self, logins: dict[str, str]) -> None:
        try:
            self._keep(logins)
        except OSError as error:
            raise CommandError(f"ERR cannot write {self._path}: {error.strerror}") from None

    def _keep(self, logins: dict[str, str]) -> None:
        if logins != self._logins and self._path is not None:
            if logins:
                replace_file(self._path, json.dumps(logins, indent=1).encode(), new_mode=0o600)
            else:
                self._path.unlink(missing_ok=True)
        self._logins = logins
