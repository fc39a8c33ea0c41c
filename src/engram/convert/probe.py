"""Tell which modules a confined process finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec

CONVERTERS = ("engram.convert.worker", "mammoth", "pypdfium2")


def main(arguments: Sequence[str]) -> int:
    """Print as JSON which of the named modules are there."""
    print(json.dumps(found(arguments)))  # noqa: T201 it is what the other process reads
    return 0


def found(names: Sequence[str]) -> list[str]:
    """Return those of the named modules that can be imported."""
    return [name for name in names if find_spec(name) is not None]
