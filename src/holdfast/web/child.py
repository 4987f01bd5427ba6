"""The dashboard as a child process of `holdfast serve`. The settings are one line of JSON on
standard input. The end of standard input means that the server has ended.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from holdfast.errors import ConfigError, HoldfastError
from holdfast.web.serving import run
from holdfast.web.settings import Settings


def main() -> int:
    given = json.loads(sys.stdin.readline())
    history = given["history"]
    settings = Settings(
        url=given["url"],
        password=given["password"],
        bind=tuple(given["bind"]),
        port=given["port"],
        history=None if history is None else Path(history),
    )
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        return run(settings, _announce)
    except ConfigError as error:
        return _complain(str(error), 2)
    except (HoldfastError, OSError) as error:
        return _complain(str(error), 1)


def _end_with_parent() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _announce(url: str) -> None:
    print(f"dashboard ready on {url}", flush=True)  # noqa: T201 - goes to the log of the server


def _complain(sentence: str, status: int) -> int:
    print(f"holdfast: dashboard: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 - as above
    return status


if __name__ == "__main__":
    sys.exit(main())
