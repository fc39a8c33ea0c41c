"""Load named SQL statements from the `.sql` files beside their modules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_COMMENT = re.compile(r"--[^\n]*+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_NAME = re.compile(r"^-- (\w+) --$", re.MULTILINE)


_PART = re.compile(
    r"""--[^\n]*+ | /\*.*?(?:\*/|\Z) | '[^']*+' | "[^"]*+"
    | (?P<fence>\$\w*+\$).*?(?:(?P=fence)|\Z) | (?P<end>;)""",
    re.DOTALL | re.VERBOSE,
)
"""What may hold a semicolon, and a semicolon that ends a statement."""


def split_statements(script: str) -> list[str]:
    """Return the statements of a script, without the semicolons between them."""
    ends = [part.start() for part in _PART.finditer(script) if part["end"]]
    starts = [0, *(end + 1 for end in ends)]
    parts = (script[start:end] for start, end in zip(starts, [*ends, len(script)], strict=True))
    return [part.strip() for part in parts if _COMMENT.sub("", part).strip()]


@cache
def load_queries(path: str, *, package: str = "engram.storage") -> Mapping[str, str]:
    """Return the statements of a file below a package, each under its `-- name --` line.

    Comments are kept: SQLite skips them, and they name the statement in traces.
    """
    text = files(package).joinpath(path).read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    names, statements = parts[::2], parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"{path} names a statement twice")
    return MappingProxyType(
        {name: sql.strip() for name, sql in zip(names, statements, strict=True)}
    )
