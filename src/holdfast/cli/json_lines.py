"""`--json`: results for programs, one object in each line.

docs/guide-operating.md lists the names of fields, which do not change.
"""

import dataclasses
import json
from enum import Enum
from typing import Any


def print_json(fields: object) -> None:
    """Print a dict or a dataclass as one line. It is ASCII, so that it is the same in each locale,
    also if a file name is not UTF-8."""
    print(json.dumps(fields, default=_plain))


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.name
    return str(value)  # a path
