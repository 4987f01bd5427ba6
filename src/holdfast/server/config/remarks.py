"""Log lines about settings that have another meaning than in Redis, or no effect.

Only settings that the operator has changed are named, so an unchanged redis.conf gives few lines.
"""

import os
from collections.abc import Iterator
from logging import INFO, WARNING
from typing import NamedTuple

from holdfast.log_lines import VERBOSE
from holdfast.server.config.config import Config

MAY_BE_LOST = {
    "everysec": "about the last second of acknowledged writes",
    "no": "all acknowledged writes that the operating system has not written to disk yet",
}

# Explanations for parameters without effect whose effect an operator would miss.
_INSTEAD = {
    "appendonly": (INFO, "every write is in the journal, which cannot be turned off"),
    "cluster-enabled": (WARNING, "this server is no part of a cluster and has all keys itself"),
    "daemonize": (WARNING, "the server stays in the foreground; run it as a service instead"),
    "save": (INFO, "there are no snapshots; every write is in the database file"),
    "syslog-enabled": (WARNING, "the log goes to stderr or to logfile, not to syslog"),
}


class Remark(NamedTuple):
    level: int
    setting: str
    sentence: str


def remarks(config: Config) -> Iterator[Remark]:
    """A remark for each setting that needs an explanation, and one for all others without
    effect."""
    yield from (Remark(WARNING, "", sentence) for sentence in config.warnings)
    if config.db == ":memory:":
        yield Remark(
            INFO, "db", "db :memory: keeps nothing: all data is gone when the server stops"
        )
    elif (promise := lowered_promise(config)) is not None:
        yield promise
    inert = config.without_effect()
    for name in inert:
        if name in _INSTEAD:
            level, sentence = _INSTEAD[name]
            yield Remark(level, name, f"{_named(config, name)} has no effect: {sentence}")
    if others := [name for name in inert if name not in _INSTEAD]:
        yield Remark(INFO, "", f"these settings have no effect here: {', '.join(others)}")
    if config.supervised == "upstart":
        yield Remark(
            WARNING, "supervised", "supervised upstart has no effect: only systemd is told"
        )
    if config.maxmemory and config.maxmemory_policy == "noeviction":
        yield Remark(
            VERBOSE,
            "maxmemory",
            "maxmemory bounds memory, not data: values above it are read from the file again",
        )
    yield from _files_of_redis(config)


def lowered_promise(config: Config) -> Remark | None:
    """The writes that a power cut may lose; None if every acknowledged write is on disk."""
    lost = MAY_BE_LOST.get(config.appendfsync)
    if lost is None:
        return None
    return Remark(
        WARNING,
        "appendfsync",
        f"{_named(config, 'appendfsync')}: a power cut may lose {lost};"
        " 'appendfsync always' loses none",
    )


def _named(config: Config, name: str) -> str:
    """`appendfsync everysec (/etc/redis/redis.conf, line 3)`"""
    ((_, value),) = config.get(name.encode())
    origin = config.origins.get(name)
    return f"{name} {value.decode('utf-8', 'replace')}" + (f" ({origin})" if origin else "")


def _files_of_redis(config: Config) -> Iterator[Remark]:
    """Warn of data files of Redis, which Redis would load at its start. A server that already has
    its own file does not need them any more."""
    if config.db == ":memory:" or os.path.exists(config.db_path):
        return
    for setting, name in (
        ("dbfilename", config.dbfilename),
        ("appenddirname", config.appenddirname),
    ):
        path = config.path(name)
        if name and os.path.exists(path):
            own = f"the data is in {config.db_path}, which is new and empty"
            yield Remark(WARNING, setting, f"{path} is not read: {own}")
